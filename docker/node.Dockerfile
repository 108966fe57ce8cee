# One broker: `reference`, `server` and what they import, without build tools and the harness. Run it with a configuration file:
#     docker run … highwater-node --config /etc/highwater/b1.json
ARG BASE=highwater-base
FROM ${BASE}
COPY site /opt/highwater
ENV PYTHONPATH=/opt/highwater PYTHONUNBUFFERED=1
# Compile now, because the root file system is read-only at run time. Import once, so that a wrong Python or a missing wheel fails
# the build.
RUN python3 -m compileall -q /opt/highwater && python3 -m server.runtime --help >/dev/null
USER 10001:10001
WORKDIR /opt/highwater
ENTRYPOINT ["python3", "-m", "server.runtime"]

# The harness: the command `highwater` without Spark, an ordinary user. Runs and pages go to the folder mounted at /data:
#     docker run --rm -u "$(id -u):$(id -g)" -v "$PWD:/data" highwater run --seed 1
ARG BASE=highwater-base
FROM ${BASE}
COPY site /opt/highwater
ENV PYTHONPATH=/opt/highwater PYTHONUNBUFFERED=1 HOME=/tmp
# A run compiles what most commands import, and fails the build if a wheel is missing.
RUN python3 -m highwater run --seed 1 --seconds 3 --store /tmp/store >/dev/null && rm -r /tmp/store
ENV PYTHONDONTWRITEBYTECODE=1
USER 10001:10001
WORKDIR /data
ENTRYPOINT ["python3", "-m", "highwater"]

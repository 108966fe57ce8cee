# Debian with Python 3.11 and what runs in containers need: Java for ZooKeeper, iptables, tc and ss for network faults, libfaketime
# for clock faults. If BASE_IMAGE has all of them already, the build needs no network.
ARG BASE_IMAGE=python:3.11-slim-bookworm
FROM ${BASE_IMAGE}
RUN if ! { command -v java && command -v iptables && command -v tc && ls /usr/lib/*/faketime/libfaketime.so.1; } >/dev/null 2>&1; then \
        apt-get update -qq \
        && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
            openjdk-17-jre-headless iptables iproute2 libfaketime \
        && rm -rf /var/lib/apt/lists/*; \
    fi

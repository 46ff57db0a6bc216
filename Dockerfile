# syntax=docker/dockerfile:1
# Perdure as an image: `docker build --tag perdure .`
# For your own flows, install a package on top (FROM perdure), or mount a module into /home/perdure
# and name it in PERDURE_FLOW_MODULES.

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE ./
COPY perdure ./perdure
COPY config ./config
COPY flows ./flows
COPY worker ./worker
RUN python -m venv /opt/perdure \
 && /opt/perdure/bin/pip install --no-cache-dir '.[ai,mcp,server,otel]'

FROM python:3.13-slim
# git: for the flow `bisect`.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends git \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 perdure
COPY --from=build /opt/perdure /opt/perdure
ENV PATH=/opt/perdure/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PERDURE_LOG_FORMAT=json
USER 10001
WORKDIR /home/perdure

# The program itself, without a shell before it, so that SIGTERM reaches the worker. It then
# finishes the rounds in flight and ends.
STOPSIGNAL SIGTERM
ENTRYPOINT ["perdure"]
CMD ["worker"]

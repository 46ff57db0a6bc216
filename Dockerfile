# syntax=docker/dockerfile:1
# Holdfast as an image: `docker build --tag holdfast .`
# A flow of one's own: a package installed on top (FROM holdfast), or a module mounted into /home/holdfast and named in
# HOLDFAST_FLOW_MODULES.

FROM python:3.13-slim AS build
WORKDIR /source
COPY pyproject.toml README.md LICENSE holdfast_pytest.py ./
COPY config ./config
COPY flows ./flows
COPY worker ./worker
RUN python -m venv /opt/holdfast && /opt/holdfast/bin/pip install --no-cache-dir '.[ai,mcp,server,otel]'

FROM python:3.13-slim
# git: the flow `bisect` works on repositories.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends git \
 && rm -rf /var/lib/apt/lists/* \
 && useradd --create-home --uid 10001 holdfast
COPY --from=build /opt/holdfast /opt/holdfast
ENV PATH=/opt/holdfast/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    HOLDFAST_LOG_FORMAT=json
USER 10001
WORKDIR /home/holdfast

# The program itself, without a shell before it, so that SIGTERM reaches the worker: it finishes the rounds in flight and leaves.
STOPSIGNAL SIGTERM
ENTRYPOINT ["holdfast"]
CMD ["worker"]

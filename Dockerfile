# An image with the library, the command, the Python package, and the demo on hostdnn. docs/install.md says how it is used.
FROM rust:1.95.0-slim-bookworm AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends \
        binutils gcc libc6-dev libclang-dev libglpk-dev make python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /ucudnn
COPY . .
RUN make wheel

FROM debian:12.11-slim
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3 python3-venv \
    && rm -rf /var/lib/apt/lists/*
WORKDIR /ucudnn
COPY --from=build /ucudnn/build/dist/*.whl wheels/
RUN python3 -m venv venv && venv/bin/pip install --no-cache-dir --no-index wheels/*.whl
# NVIDIA's container runtime puts these parts of the driver in place.
ENV PATH=/ucudnn/venv/bin:$PATH NVIDIA_VISIBLE_DEVICES=all NVIDIA_DRIVER_CAPABILITIES=compute,utility
CMD ["ucudnn", "doctor"]

# The image of the command rlock. docs/guide/deploying.md shows how to build and use it.
FROM --platform=$BUILDPLATFORM golang:1.26-bookworm AS build
ARG TARGETOS TARGETARCH
ARG VERSION=unknown
WORKDIR /src
COPY . .
RUN cd cmd/rlock && CGO_ENABLED=0 GOOS=$TARGETOS GOARCH=$TARGETARCH go build -buildvcs=false -trimpath \
    -ldflags="-s -w -X github.com/go-rlock/rlock/cmd/rlock/internal/cli.released=$VERSION" -o /rlock .

# It has certificates, time zones and a user that is not root, and neither a shell nor anything else.
FROM gcr.io/distroless/static-debian12:nonroot
COPY --from=build /rlock /rlock
ENTRYPOINT ["/rlock"]

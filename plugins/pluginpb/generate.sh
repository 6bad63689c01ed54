#!/bin/sh
# Regenerates the Go code of plugin.proto with the generators pinned in go.mod. Needs protoc 3.21.
set -eu
exec protoc \
  --plugin="protoc-gen-go=$(go tool -n protoc-gen-go)" \
  --plugin="protoc-gen-go-grpc=$(go tool -n protoc-gen-go-grpc)" \
  --go_out=. --go_opt=paths=source_relative \
  --go-grpc_out=. --go-grpc_opt=paths=source_relative plugin.proto

package host

import "github.com/go-rlock/rlock/internal/redistest/host"

// Server is that of the package for which this one stands in.
type Server = host.Server

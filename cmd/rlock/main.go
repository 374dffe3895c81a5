// Command rlock shows the locks of rlock and Redisson that are in Redis, frees them, and runs programs under them. See rlock --help.
package main

import (
	"os"

	"github.com/go-rlock/rlock/cmd/rlock/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Stdin, os.Stdout, os.Stderr, os.Getenv)) }

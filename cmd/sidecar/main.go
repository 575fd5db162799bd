// Command pillion is the sidecar. Everything is in internal/cli.
package main

import (
	"os"

	"github.com/pillion/pillion/internal/cli"
)

func main() { os.Exit(cli.Main(os.Args[1:], os.Environ(), os.Stdout, os.Stderr)) }

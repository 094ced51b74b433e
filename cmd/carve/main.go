// Command carve carves deep-learning models for several processors and runs them.
package main

import (
	"context"
	"os"
	"os/signal"

	"github.com/carve-dev/carve/internal/cli"
)

func main() {
	cli.HostPlugin()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	context.AfterFunc(ctx, stop) // a second interrupt ends the process at once
	os.Exit(cli.Run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

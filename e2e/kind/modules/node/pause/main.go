// pause holds the name spaces of a pod: it sleeps until it is told to end.
package main

import (
	"os/signal"
	"syscall"

	"context"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	<-ctx.Done()
}

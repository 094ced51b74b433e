package serve

import (
	"context"
	"runtime/debug"
	"time"

	"github.com/carve-dev/carve/examples/server/oip"
	"github.com/carve-dev/carve/examples/server/repository"
)

// Observer is told of what a Server does.
type Observer interface {
	// Begin is called before a request is answered. The context that it returns is the one of the request from then on, and the
	// function is called at its end.
	Begin(ctx context.Context, r *oip.Request) (context.Context, func(Outcome))
}

// Outcome is how a request has ended.
type Outcome struct {
	Version                     *repository.Version // nil where none was found
	Err                         error
	Total, Queue, Infer, Output time.Duration
	Rows                        int
}

// Observers are several as one. Those that are nil are left out.
type Observers []Observer

// Begin implements Observer.
func (list Observers) Begin(ctx context.Context, r *oip.Request) (context.Context, func(Outcome)) {
	ends := make([]func(Outcome), 0, len(list))
	for _, o := range list {
		if o == nil {
			continue
		}
		var end func(Outcome)
		ctx, end = o.Begin(ctx, r)
		ends = append(ends, end)
	}
	return ctx, func(o Outcome) {
		for i := len(ends) - 1; i >= 0; i-- {
			ends[i](o)
		}
	}
}

// Version returns the version of carve that the program was built with, "devel" where that is not known.
func Version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "devel"
	}
	for _, m := range info.Deps {
		if m.Path == "github.com/carve-dev/carve" && m.Version != "v0.0.0" {
			return m.Version
		}
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			return "devel-" + s.Value[:min(12, len(s.Value))]
		}
	}
	return "devel"
}

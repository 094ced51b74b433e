package dagtest

import "context"

// Asked is a context that ends when Left more questions were put to Err. It is for work on one goroutine: how often that asks, and what
// it does when it hears that it is over, does not depend on how fast the machine is.
type Asked struct {
	context.Context
	Left int // below 0: over
}

// Err implements context.Context.
func (a *Asked) Err() error {
	if a.Left--; a.Left < 0 {
		return context.Canceled
	}
	return nil
}

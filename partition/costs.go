package partition

import (
	"github.com/carve-dev/carve/convert"
	"github.com/carve-dev/carve/graph"
)

// Costs prices what a choice by cost weighs. All numbers are nanoseconds of one run, not negative, the same whenever they are
// asked for; +Inf means that it cannot be. Calls come from one goroutine.
type Costs interface {
	// Run returns what a candidate takes with one of its signatures, whose variables are fixed. Of a set it is asked after the
	// set was offered, when Candidate.Node is nil.
	Run(c *Candidate, s *graph.Signature) float64
	// Hop returns what a converter takes for a tensor of that many bytes, padding included: the mean of what it reads and
	// writes.
	Hop(c *convert.Converter, bytes int64) float64
	// Launch returns what it takes to begin a group of that backend, an index into Options.Backends, beyond what its nodes
	// take.
	Launch(backend int) float64
}

// Declared are the Costs that candidates and converters declare by themselves: Candidate.Cost with the signature's Extra, and
// Converter.Cost.
type Declared struct {
	// Launches are the nanoseconds that it takes to begin a group, by backend; those that are missing count nothing.
	Launches []float64
}

// Run implements Costs. A candidate that says nothing of its time counts the bytes that it says it moves, at the speed at
// which the host copies.
func (Declared) Run(c *Candidate, s *graph.Signature) float64 {
	ns := c.Cost.Nanoseconds
	if ns <= 0 {
		ns = convert.HostCost.PerByte * c.Cost.Bytes
	}
	return ns + s.Extra
}

// Hop implements Costs.
func (Declared) Hop(c *convert.Converter, bytes int64) float64 { return c.Cost.Of(bytes) }

// Launch implements Costs.
func (d Declared) Launch(backend int) float64 {
	if backend < len(d.Launches) {
		return d.Launches[backend]
	}
	return 0
}

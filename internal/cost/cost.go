// Package cost models how long a node takes on a backend, in nanoseconds, from its shapes and from what the backend achieves
// (backend.Efficiency). Nothing is timed: the same node, table and number of threads give the same number.
//
// A node has a class (class.go) and does an amount of work (work.go): operations, bytes, rows, elements. The time is a sum
// over these, each with the coefficient of the backend's law for the class:
//
//	Fixed + share · (Work·work + Bytes·bytes + Far·bytes beyond the cache + Rows·rows + Items·items)
//
// share is what threads leave of it. A sum, and no maximum of arithmetic and memory: kernels overlap the two in part only,
// and a sum stays a fit of positive coefficients, that grows with every size.
//
// A fused node takes the time of its head, with the bytes that enter and leave the whole set, and of the others only the
// arithmetic: fusion saves their passes over memory and their fixed times. So costs add up over any choice of sets: what a
// set costs does not depend on what is chosen around it, but for conversions and launches, which are counted apart.
//
// Coefficients come from internal/bench/cost, which measures them. The package imports backend and what is below it, and
// internal/flops.
package cost

import (
	"math"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph"
	"github.com/carve-dev/carve/property"
)

// mostNanos bounds costs, so that sums of them stay finite: 30 years.
const mostNanos = 1e18

// Of models one run of a node, or of a set as its Fused node, on so many threads: for one of the backend's signatures, by
// name. Symbols count as graph.AssumedSize, and dims that depend on data as graph.AssumedDim. Nanoseconds are 0, not known,
// where e is nil or has no law for the node's class; otherwise they are positive and finite. Cost O(operands), of a set
// O(its nodes).
func Of(e *backend.Efficiency, n *graph.Node, signature string, threads int) property.Cost {
	w := Measure(n)
	c := property.Cost{FLOPs: w.FLOPs, Bytes: w.Bytes}
	if e == nil {
		return c
	}
	c.Nanoseconds = Nanoseconds(e, &w, signature, threads)
	return c
}

// Nanoseconds is the time of what Measure found.
func Nanoseconds(e *backend.Efficiency, w *Work, signature string, threads int) float64 {
	l, ok := lawOf(e, w.Class, signature)
	if !ok {
		return 0
	}
	rest := variable(&l, w, e.Cache)
	for _, p := range w.Parts {
		rest += perItem(e, p.Class)*p.Items + perOperation(e, p.Class)*p.Work
	}
	t := rest
	if threads > 1 {
		t = min(rest, e.Sync+rest*(l.Serial+(1-l.Serial)/float64(threads)))
	}
	return clamp(l.Fixed + t)
}

// perItem is the arithmetic of an element of a class beside its pass over memory: what it costs, with four bytes read and four
// written, above a sum of as many. Which of a law's coefficients has the time that grows with the elements means nothing.
func perItem(e *backend.Efficiency, class string) float64 {
	pass := func(class string) float64 {
		l, ok := e.Laws[class]
		if !ok {
			return 0
		}
		return l.Items + 8*l.Bytes
	}
	return max(0, pass(class)-pass("add"))
}

// perOperation is what an operation of a class costs.
func perOperation(e *backend.Efficiency, class string) float64 { return e.Laws[class].Work }

// variable is what a law says of the work of a node's head, but for Fixed, on one thread.
func variable(l *backend.Law, w *Work, cache float64) float64 {
	return l.Work*w.Work + l.Bytes*w.Bytes + l.Far*max(0, w.Bytes-cache) + l.Rows*w.Rows + l.Items*w.Items
}

// clamp makes a positive finite number of nanoseconds of whatever came out.
func clamp(x float64) float64 {
	if math.IsNaN(x) {
		return mostNanos
	}
	return min(max(x, 1), mostNanos)
}

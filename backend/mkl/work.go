package mkl

// A primitive is made for all threads of a run or for one: its threads meet at its beginning and at its end, which costs
// more than small work takes. Teams of other sizes are not made, because GNU's OpenMP library ends and starts threads
// where the size changes.

// soloNanos is the time on one thread up to which a primitive is made for one thread. Two threads of GNU's OpenMP library
// meet for 2.2 µs as long as both turn idly in between, and for 10 to 50 µs where one has gone to sleep or another program
// has its processor (oneDNN 2.6.3, two cores of an AMD EPYC 9004).
const soloNanos = 30000

// soloGroupNanos is the time on one thread up to which all primitives of a group are made for one thread: between its few
// larger ones, threads would go to sleep and wake up for longer than they help.
const soloGroupNanos = 500000

// What a thread does in a nanosecond, on that processor, of data in its caches.
const (
	bytesPerNano = 40  // read or written
	opsPerNano   = 100 // multiplications or additions
)

// Operations that an element is worth.
const (
	moveOps    = 40  // a strided copy
	expOps     = 60  // exponential and its like
	averageOps = 40  // the passes of a normalisation
	powerOps   = 200 // local response normalisation
)

// nanos estimates the time of a primitive on one thread.
func (r recipe) nanos() float64 {
	bytes := 0
	for _, s := range r.shapes {
		bytes += dtypeBytes(s.dtype) * product(s.dims)
	}
	return float64(bytes)/bytesPerNano + r.ops/opsPerNano
}

// threads returns the number of threads that the primitive of a recipe is made for in runs on that many.
func (r recipe) threads(most int) int {
	if r.nanos() <= soloNanos {
		return 1
	}
	return most
}

// elements returns the number of elements of a shape, as operations are counted.
func (s shape) elements() float64 { return float64(product(s.dims)) }

// ops is what an element of the operation is worth.
func (e eltwise) ops() float64 {
	switch e {
	case eltRelu, eltLinear, eltClip, eltAbs, eltHardSwish, eltHardSigmoid, eltRound:
		return 1
	}
	return expOps
}

package memplan

// Interval is the half-open interval of time [Lower, Upper).
type Interval struct{ Lower, Upper int64 }

// Buffer is one block of memory to be placed. The zero value takes no space.
type Buffer struct {
	// ID names the buffer in files, pictures and errors. Pack does not read
	// it: buffers are told apart by their index.
	ID string

	// Size is the number of bytes, at least 0.
	Size int64

	// Align is the alignment of the offset, a power of two; 0 means 1.
	Align int64

	// Lower and Upper bound the lifetime, [Lower, Upper). A buffer with
	// Lower == Upper is never alive and takes no space.
	Lower, Upper int64

	// Gaps are times inside the lifetime when the buffer's space is free for
	// others. They may come in any order and may overlap.
	Gaps []Interval

	// Fixed places the buffer at Offset, which must be a multiple of Align.
	Fixed  bool
	Offset int64

	// Share lists the indices of buffers that may start at the same offset
	// as this one although both are alive: an output that overwrites its
	// input, names for one block. The relation is symmetric, and it is
	// enough that one of two buffers lists the other. It is not transitive:
	// an output may share with either of two inputs that must not share with
	// one another. Two sharing buffers start at the same offset or lie apart;
	// any other overlap is as forbidden as it is between strangers.
	Share []int
}

// Plan says where every buffer lies. It is a plain value.
type Plan struct {
	// Offsets[i] is the offset of buffer i. Buffers that take no space get 0,
	// or their fixed offset.
	Offsets []int64

	// Height is the largest offset plus size over all buffers that take
	// space: the bytes that the arena needs.
	Height int64

	// LowerBound is a height that no plan can go below. Without search it is
	// LowerBound's result; a search that proves more raises it.
	LowerBound int64

	// Optimal is true when Height is proven to be the least possible.
	Optimal bool

	// Method names what found the plan, such as "size/best-fit" or "search".
	Method string

	// Nodes counts the steps of search spent. It is reproducible only where
	// the plan is: see Options.Steps.
	Nodes int64
}

// Options are the settings of Pack. Nil and the zero value mean defaults.
type Options struct {
	// Capacity is the height to fit in, in bytes. 0 means that there is none
	// and the height is minimised.
	Capacity int64

	// Steps is the budget of search in steps, each well under a microsecond
	// to a few microseconds of work. With Steps > 0 the offsets are a
	// function of buffers and options, for any number of threads, as long
	// as the context does not end first. 0 means that search ends with the
	// context's deadline; where the context has none, DefaultSteps when
	// minimising and 2048 times as many for a capacity. A negative value
	// means no search at all.
	Steps int64

	// Threads is the number of goroutines that search; 0 means GOMAXPROCS.
	Threads int

	// Like are offsets of as many buffers with the same lifetimes and other
	// sizes. The order that they lie in is tried first, and nothing else
	// where its height is at most Near times the lower bound (or within the
	// capacity): that takes a small part of the time of heuristics and
	// search. Nil means none.
	Like []int64
	Near float64
}

// DefaultSteps is the budget of search when the height is minimised, and
// neither Options.Steps nor a deadline says otherwise. It takes at most
// a second or so.
const DefaultSteps = 1 << 16

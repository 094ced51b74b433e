package isolate

import "time"

// Config says what a Process runs, and whom it tells.
type Config struct {
	// Host is the program that becomes the child, with its arguments; nil is this program. It has to call Serve first.
	Host    []string
	Library string
	Start   time.Duration // until the child has to be ready
	// Check looks at what a new child has to offer, before it is used.
	Check func(h Hello) error
	// Upcall answers a question that a function asks while it is called.
	Upcall func(words [4]uint64) uint64
	// Done hears that an event has happened. It must not block.
	Done func(token uint64, status int32)
	Log  func(level uint32, text string)
	// Tick is called several times a second while a life lasts. Its Failure ends the life.
	Tick func(life uint64, now time.Time) *Failure
	// Ended hears that a life is over, when nothing of it can write to the region any more.
	Ended func(life uint64, why *Failure)
}

// Hello is what a child says when it has opened the library.
type Hello struct {
	Table     uint64 `json:"table"`     // address of the library's table of functions
	Functions uint64 `json:"functions"` // bit i: the function with number i is there
	Brought   uint64 `json:"brought"`   // changes with what else the library has, for Config.Check
	Error     string `json:"error,omitempty"`
	Code      int    `json:"code,omitempty"`
}

// Stats tell how a Process has fared.
type Stats struct {
	Restarts int
	Last     *Failure // the last end of a life, nil where there was none
}

// Callee is a library in the child.
type Callee struct {
	Hello
	Call func(fn uint32, args *[6]uint64) uint64
}

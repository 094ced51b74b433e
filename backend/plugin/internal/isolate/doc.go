// Package isolate runs the functions of a library in a child process, which may crash, hang or answer nonsense without harm
// to this one.
//
// # Memory
//
// A Region is a file without a name (memfd) that both processes map at the same address, so that an address in it means the
// same to both, and structs with pointers need no translation. The parent alone hands out blocks of it. What the child writes
// there is not trusted: the parent follows no address that it finds there, and keeps for itself where its blocks lie. Memory
// of the child's own is read by the child, on request (Process.Read).
//
// # Calls
//
// Calls go by slots in the region, one for each call that is under way, each with a thread of the child's:
//
//	offset  bytes  what
//	     0      4  state: 0 idle, 1 request, 2 answered (both for the child to see), 3 reply, 4 upcall (for the parent)
//	     4      4  wait: 0 the parent looks by itself, 1 it waits for the state (futex), 2 it wants a message
//	     8      4  sleep: 1 while the child waits for the state (futex)
//	    12      4  operation: 1 call a function, 2 read bytes, 3 read a struct, 4 structs of a list
//	    16      4  number of the function
//	    24      8  number of the call
//	    32     48  six words of arguments
//	    80      8  result
//	    88      8  number of the call that the result is of
//	    96     32  four words that an upcall asks with
//	   128      8  the parent's answer to it
//	   136      8  nanoseconds that the call took
//	   144      8  nanoseconds since the parent had the reply to the one before
//	   256   7936  what was read
//
// Who waits looks at the state for as long as the answer, or the next request, takes as a rule, then sleeps on it; where that is
// long, at once. The parent gives its thread back after some milliseconds, and is woken by a message on a socket then. On that socket
// the child also says that it is ready, forwards what the library logs, and that events have happened. The page in front of the slots has a counter that the child increments ten times a second.
//
// # Lives
//
// A Process has one life after another: when the child ends, a next one is started after a while. Each call says for which life
// it is meant, because handles of the library's mean nothing to another one. The child ends with its parent.
package isolate

import "errors"

// ErrUnsupported says that the platform has no such child processes.
var ErrUnsupported = errors.New("plugins in processes of their own need Linux on amd64 or arm64")

// Environment is the variable that says, with the value "1", that a process is such a child.
const Environment = "CARVE_PLUGIN_HOST"

// Kind is how a life has ended, or why a call was not made.
type Kind int

// Kinds of failures.
const (
	Crashed Kind = iota // by a signal
	Exited              // the library called exit
	Hung                // no answer in time, or no sign of life
	Corrupt             // an answer that cannot be
	Gone                // the call was meant for another life, or there is none at the moment
	Refused             // the child could not open the library
)

// Failure is the end of a life.
type Failure struct {
	Kind Kind
	Text string
	Code int // of Refused: the child's own, see Callee
}

// Error implements error.
func (f *Failure) Error() string { return f.Text }

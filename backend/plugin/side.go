package plugin

import (
	"errors"
	"unsafe"

	"github.com/carve-dev/carve/backend/plugin/internal/isolate"
)

// side is where functions of a plugin run and its memory lies: in this process (the zero side), or in a life of another.
type side struct {
	l    *Library // whose, where it is another process
	proc *isolate.Process
	life uint64
}

// here is this process.
var here side

// read copies memory of the plugin's.
func (from side) read(at uintptr, to []byte) error {
	if from.proc != nil {
		return from.l.processError(reading, from.proc.Read(from.life, at, to, from.l.apart.timeout))
	}
	copy(to, unsafe.Slice((*byte)(pointer(at)), len(to)))
	return nil
}

// bytes reads n bytes of the plugin's, as much at a time as it has been seen to have.
func (from side) bytes(at uintptr, n uint64) ([]byte, error) {
	const most = 16 << 20
	var out []byte
	for uint64(len(out)) < n {
		have := len(out)
		out = append(out, make([]byte, min(n-uint64(have), most))...)
		if err := from.read(at+uintptr(have), out[have:]); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// readStruct copies a struct that begins with its size, which it returns; what the struct does not have stays zero.
func (from side) readStruct(at uintptr, to []byte) (uint32, error) {
	if from.proc != nil {
		err := from.proc.ReadStruct(from.life, at, to, from.l.apart.timeout)
		return *(*uint32)(unsafe.Pointer(unsafe.SliceData(to))), from.l.processError(reading, err)
	}
	size := *(*uint32)(pointer(at))
	if size <= maxStruct {
		copy(to, unsafe.Slice((*byte)(pointer(at)), min(int(size), len(to))))
	}
	return size, nil
}

// readStructs copies the structs of a list of pointers, of another process.
func (from side) readStructs(list uintptr, n, size int, to []byte) error {
	return from.l.processError(reading, from.proc.ReadStructs(from.life, list, n, size, to, from.l.apart.timeout))
}

// call calls a function of the table. The status is that of the function; the error is a *ProcessError, where it was not called,
// or has not returned.
func (l *Library) call(s side, fn uintptr, args ...uintptr) (status, error) {
	if fn == 0 {
		return statusNotImplemented, nil
	}
	if s.proc != nil {
		return l.callFar(s, fn, args...)
	}
	return status(int32(invoke(fn, args...))), nil
}

// callFar calls a function in another process: fn is its number in the table, or among those of what else the library brings.
func (l *Library) callFar(s side, fn uintptr, args ...uintptr) (status, error) {
	var words [6]uintptr
	copy(words[:], args)
	limit := l.apart.timeout
	if fn == l.table.compile || fn == l.table.load {
		limit = l.apart.compileTimeout
	}
	var name *string
	if fn >= ownFunctions {
		thing, m := memberOf(fn)
		name = &memberNames[m]
		if thing >= len(l.operators)+len(l.properties) && m == memberRun { // of a pass, which is part of a compilation
			limit = l.apart.compileTimeout
		}
	} else {
		name = &functions[fn-firstFunction]
	}
	ret, err := s.proc.Call(s.life, name, uint32(fn), words, limit)
	if err != nil {
		return statusFailed, l.processError(*name, err)
	}
	return status(int32(ret)), nil
}

// reading is what errors say instead of a function where memory of a plugin's was to be read.
const reading = "memory"

// processError makes an error of what the package isolate says, nil of nil.
func (l *Library) processError(function string, err error) error {
	if err == nil {
		return nil
	}
	out := &ProcessError{Plugin: l.name, Function: function, Reason: err.Error(), cause: ErrLost}
	var f *isolate.Failure
	if errors.As(err, &f) {
		out.cause = causes[f.Kind]
	}
	return out
}

// functions are the names of the table's functions, in order.
var functions = [...]string{
	"processors", "open", "close", "live", "last_error",
	"operators", "supports", "claim", "release_claims", "negotiate",
	"compile", "executable_close", "specialize", "instance_close", "requirements",
	"session_open", "enqueue", "session_close",
	"event_poll", "event_wait", "event_notify", "event_close",
	"stream_open", "stream_record", "stream_wait", "stream_sync", "stream_close",
	"alloc", "free", "direct_free", "release_all", "copy", "copies_to",
	"converters", "converted_size", "convert",
	"save", "load",
}

// firstFunction is the place of the first function in the table, in words.
const firstFunction = unsafe.Offsetof(cTable{}.processors) / 8

// entries are the words of a table's functions.
func (t *cTable) entries() []uintptr {
	return unsafe.Slice(&t.processors, len(functions))
}

// shared is the memory that the plugin shares, nil where it is in this process.
func (from side) shared() *isolate.Region {
	if from.proc == nil {
		return nil
	}
	return from.proc.Region()
}

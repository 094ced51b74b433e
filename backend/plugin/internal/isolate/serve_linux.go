//go:build amd64 || arm64

package isolate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Descriptors of the child.
const (
	memoryFD  = 3
	controlFD = 4
)

// Host is the parent as a library in the child sees it.
type Host struct {
	area    *area
	callee  Callee
	threads sync.Map // slots by thread
}

// Serve is the child: it opens the library by load, and does what the parent asks for until it ends. It returns the exit code.
func Serve(load func(path string, h *Host) Callee) int {
	_ = os.Unsetenv(Environment) // it is not for children of the library's
	b := make([]byte, maxText+64)
	n, err := unix.Read(controlFD, b)
	var c setup
	if err == nil {
		err = json.Unmarshal(b[:n], &c)
	}
	h := &Host{}
	if err == nil {
		if err = mapAt(memoryFD, uintptr(c.Base), uintptr(c.Size)); errors.Is(err, unix.EEXIST) || errors.Is(err, unix.ENOMEM) {
			b, _ = json.Marshal(Hello{Error: "has no room for the shared memory: " + err.Error(), Code: noRoom})
			_ = h.send(messageHello, b)
			return 2
		}
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "a process for plugins is started by the program that uses them: %v\n", err)
		return 2
	}
	unix.CloseOnExec(memoryFD)
	unix.CloseOnExec(controlFD)
	defaultSignals()
	h.area = areaAt(uintptr(c.Slots))
	h.callee = load(c.Library, h)
	b, err = json.Marshal(h.callee.Hello)
	if err != nil || h.send(messageHello, b) != nil || h.callee.Error != "" {
		return 2
	}
	go h.beat()
	go h.serve(0)
	for {
		if _, err := unix.Read(controlFD, b[:1]); err != unix.EINTR { // any message tells it to end, as does the parent's end
			return 0
		}
	}
}

// defaultSignals has faults end the process at once: the parent sees by which, and Go's handlers would say at length
// what they know nothing of.
func defaultSignals() {
	type action struct{ handler, flags, restorer, mask uint64 }
	var def action
	for _, s := range []syscall.Signal{syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL, syscall.SIGABRT, syscall.SIGTRAP} {
		_, _, _ = syscall.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(s), uintptr(unsafe.Pointer(&def)), 0, 8, 0, 0)
	}
}

func (h *Host) beat() {
	for {
		atomic.AddUint64(&h.area.beat, 1)
		time.Sleep(beatEvery)
	}
}

// send sends a message; those of several threads do not mix.
func (h *Host) send(kind uint32, b []byte) error {
	m := append(binary.LittleEndian.AppendUint32(nil, kind), b...)
	for {
		_, err := unix.Write(controlFD, m)
		if err != unix.EINTR {
			return err
		}
	}
}

// Done tells that the event of a token has happened.
func (h *Host) Done(token uint64, status int32) {
	b := binary.LittleEndian.AppendUint64(nil, token)
	_ = h.send(messageDone, binary.LittleEndian.AppendUint32(b, uint32(status))) // without a parent there is nobody to tell
}

// Log tells what the library has to say.
func (h *Host) Log(level uint32, text string) {
	b := binary.LittleEndian.AppendUint32(nil, level)
	_ = h.send(messageLog, append(b, text[:min(len(text), maxText)]...))
}

// Upcall asks the parent, on the thread of a call. ok is false on other threads.
func (h *Host) Upcall(words [4]uint64) (ret uint64, ok bool) {
	i, ok := h.threads.Load(unix.Gettid())
	if !ok {
		return 0, false
	}
	s := &h.area.slots[i.(int)]
	s.up = words
	woken := h.tell(i.(int), stateUpcall)
	s.attend(stateAnswered, new(pace).spin(woken))
	return s.upRet, true
}

// tell sets the state of a slot for the parent to see, and says whether the parent had to be woken.
func (h *Host) tell(i int, state uint32) (woken bool) {
	s := &h.area.slots[i]
	atomic.StoreUint32(&s.state, state)
	switch atomic.SwapUint32(&s.wait, waitNot) {
	case waitFutex:
		futexWake(&s.state)
	case waitMessage:
		_ = h.send(messageWake, binary.LittleEndian.AppendUint32(nil, uint32(i)))
	default:
		return false
	}
	return true
}

// attend waits until the parent has set that state, and looks for it for spin before it sleeps.
func (s *slot) attend(state uint32, spin time.Duration) {
	other := func(st uint32) bool { return st != state }
	for st := s.look(other, spin); st != state; {
		atomic.StoreUint32(&s.sleep, 1)
		if st = atomic.LoadUint32(&s.state); st != state {
			futexWait(&s.state, st, 0)
			st = atomic.LoadUint32(&s.state)
		}
		atomic.StoreUint32(&s.sleep, 0)
	}
}

// serve does the calls of slot i, and sees to it that a thread is there for the next slot.
func (h *Host) serve(i int) {
	runtime.LockOSThread()
	h.threads.Store(unix.Gettid(), i)
	s := &h.area.slots[i]
	var requests pace
	woken := false
	for first := true; ; first = false {
		s.attend(stateRequest, requests.spin(woken))
		begin := time.Now()
		requests.note(time.Duration(s.pause))
		if first && i+1 < slots {
			go h.serve(i + 1)
		}
		switch s.op {
		case opCall:
			s.ret = h.callee.Call(s.fn, &s.args)
		case opBytes:
			copy(s.data[:], unsafe.Slice((*byte)(pointer(uintptr(s.args[0]))), s.args[1]))
		case opStruct:
			one(s.data[:s.args[2]], uintptr(s.args[0]))
		case opStructs:
			size := s.args[2]
			for i, at := range unsafe.Slice((*uintptr)(pointer(uintptr(s.args[0]))), s.args[1]) {
				one(s.data[uint64(i)*size:][:size], at)
			}
		}
		s.answers, s.work = s.number, uint64(time.Since(begin))
		woken = h.tell(i, stateReply)
	}
}

// one copies a struct that begins with its size.
func one(out []byte, at uintptr) {
	clear(out)
	if at == 0 {
		return
	}
	has := *(*uint32)(pointer(at))
	copy(out, unsafe.Slice((*byte)(pointer(at)), min(int(has), len(out))))
	binary.LittleEndian.PutUint32(out, has)
}

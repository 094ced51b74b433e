//go:build amd64 || arm64

package isolate

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"math/bits"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Supported reports whether the platform has such child processes.
const Supported = true

// Waiting times: between lives they double from first to most as long as lives end before they have answered; a child without
// a beat for silence is taken for hung, and one that is told to end gets grace.
const (
	firstDelay = 10 * time.Millisecond
	mostDelay  = 10 * time.Second
	silence    = 10 * time.Second
	grace      = 2 * time.Second
	beatEvery  = 100 * time.Millisecond
	tickEvery  = 50 * time.Millisecond
)

// Process is a library in a child process. It is safe for concurrent use.
type Process struct {
	c      Config
	region *Region
	paces  [paces]pace // of calls, by the function's number
	reads  pace

	mu      sync.Mutex
	current *life // nil between lives
	number  uint64
	stats   Stats
	back    chan struct{} // closed when there is a life again, or the next attempt has failed
	next    time.Time     // of the next attempt
	closed  bool
	closing chan struct{}
	over    chan struct{} // closed when nothing runs any more
}

// paces is how many functions are told apart.
const paces = 128

// life is one child.
type life struct {
	p       *Process
	number  uint64
	cmd     *exec.Cmd
	control *os.File
	block   *Block
	area    *area
	hello   chan Hello
	deaf    chan struct{}           // closed when all messages have been heard
	ready   chan struct{}           // closed when the child is in use
	why     atomic.Pointer[Failure] // for which it was ended
	dead    chan struct{}           // closed when it has ended
	reason  *Failure                // set before dead is closed
	gone    chan struct{}           // closed when nothing is left of it, its memory given back
	worked  atomic.Bool             // a call was answered

	tickets chan struct{}    // one for each slot
	taken   atomic.Uint64    // bits of slots
	calls   [slots]uint64    // numbers of calls, of who holds the slot
	replied [slots]time.Time // of replies, of who holds the slot
	wake    [slots]chan struct{}
	what    [slots]atomic.Pointer[string] // the function, for errors
}

// Start starts the child, and returns when it has opened the library. The error is a *Failure, or the system's.
func Start(c Config) (*Process, error) {
	r, err := NewRegion()
	if err != nil {
		return nil, err
	}
	p := &Process{c: c, region: r, back: make(chan struct{}), closing: make(chan struct{}), over: make(chan struct{})}
	l, err := p.launch()
	if err != nil {
		r.Close()
		return nil, err
	}
	p.current = l
	go p.supervise(l)
	return p, nil
}

// Region returns the shared memory. It outlives the Process as long as blocks of it are held.
func (p *Process) Region() *Region { return p.region }

// Stats tells how often the child was started again, and why the last time.
func (p *Process) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.stats
}

// Life returns the number of the present life. Between lives it waits for the next, if that is to begin within wait. The error
// is a *Failure.
func (p *Process) Life(wait time.Duration) (uint64, error) {
	var late <-chan time.Time
	for {
		p.mu.Lock()
		l, back := p.current, p.back
		if l != nil && !l.over() {
			p.mu.Unlock()
			return l.number, nil
		}
		err, soon := error(p.gone()), !p.closed && time.Until(p.next) < wait
		p.mu.Unlock()
		if !soon {
			return 0, err
		}
		if late == nil {
			t := time.NewTimer(wait)
			defer t.Stop()
			late = t.C
		}
		select {
		case <-back:
		case <-late:
			return 0, err
		case <-p.closing:
			return 0, err
		}
	}
}

// over reports whether the child has ended.
func (l *life) over() bool {
	select {
	case <-l.dead:
		return true
	default:
		return false
	}
}

// gone is the Failure of calls for lives that are over, with the lock held.
func (p *Process) gone() *Failure {
	if p.closed {
		return &Failure{Kind: Gone, Text: "was closed"}
	}
	f := &Failure{Kind: Gone, Text: "was started again"}
	if p.current == nil {
		f.Text = "is about to be started again"
	}
	if p.stats.Last != nil {
		f.Text += ": it " + p.stats.Last.Text
	}
	return f
}

// of returns the life of a number.
func (p *Process) of(number uint64) (*life, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil || p.current.number != number {
		return nil, p.gone()
	}
	return p.current, nil
}

// End ends a life, if it is the present one, and returns when it is over.
func (p *Process) End(number uint64, why *Failure) {
	if l, err := p.of(number); err == nil {
		l.fail(why)
	}
}

// PID returns the process's number, for people and tests; 0 between lives.
func (p *Process) PID() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.current == nil {
		return 0
	}
	return p.current.cmd.Process.Pid
}

// Close ends the child: it is told to, and killed where it does not. Calls that are under way fail.
func (p *Process) Close() {
	p.mu.Lock()
	closed := p.closed
	p.closed = true
	p.mu.Unlock()
	if !closed {
		close(p.closing)
	}
	<-p.over
}

// supervise starts a life when the one before has ended.
func (p *Process) supervise(l *life) {
	defer close(p.over)
	defer p.region.Close()
	delay := firstDelay
	for {
		select {
		case <-l.dead:
		case <-p.closing:
			l.end()
		}
		p.ended(l)
		if l.worked.Load() {
			delay = firstDelay
		}
		for l = nil; l == nil; {
			p.mu.Lock()
			p.next = time.Now().Add(delay)
			p.mu.Unlock()
			select {
			case <-p.closing:
				return
			case <-time.After(delay):
			}
			delay = min(2*delay, mostDelay)
			next, err := p.launch()
			l = p.began(next, err)
		}
	}
}

// began notes that a life has begun, or could not.
func (p *Process) began(l *life, err error) *life {
	p.mu.Lock()
	defer p.mu.Unlock()
	close(p.back)
	p.back = make(chan struct{})
	if err == nil {
		p.current = l
		p.stats.Restarts++
		return l
	}
	if !errors.As(err, &p.stats.Last) {
		p.stats.Last = &Failure{Kind: Refused, Text: err.Error()}
	}
	return nil
}

// ended notes the end of a life.
func (p *Process) ended(l *life) {
	p.mu.Lock()
	p.current = nil
	if !p.closed {
		p.stats.Last = l.reason
	}
	p.mu.Unlock()
	if p.c.Ended != nil {
		p.c.Ended(l.number, l.reason)
	}
}

// end tells the child to end, and kills it where it does not in time.
func (l *life) end() {
	_, _ = l.control.Write([]byte{1})
	select {
	case <-l.dead:
	case <-time.After(grace):
		l.fail(&Failure{Kind: Hung, Text: "did not end when it was told to"})
	}
}

// fail kills the child for a reason, and returns when it has ended, with the reason that was first.
func (l *life) fail(why *Failure) *Failure {
	if l.why.CompareAndSwap(nil, why) {
		_ = l.cmd.Process.Kill()
	}
	<-l.dead
	return l.reason
}

// launch starts a child, and waits until it has opened the library.
func (p *Process) launch() (l *life, err error) {
	for range attempts {
		var f *Failure
		if l, err = p.tryLaunch(); !errors.As(err, &f) || f.Code != noRoom {
			break
		}
	}
	return l, err
}

func (p *Process) tryLaunch() (*life, error) {
	block, err := p.region.Alloc(int(unsafe.Sizeof(area{})), granule)
	if err != nil {
		return nil, err
	}
	p.number++ // of the supervisor alone
	l := &life{p: p, number: p.number, block: block, hello: make(chan Hello, 1), deaf: make(chan struct{}),
		ready: make(chan struct{}), dead: make(chan struct{}), gone: make(chan struct{}), tickets: make(chan struct{}, slots)}
	at := uintptr(unsafe.Pointer(unsafe.SliceData(block.Bytes())))
	l.area = areaAt(at)
	for i := range slots {
		l.wake[i] = make(chan struct{}, 1)
		l.tickets <- struct{}{}
	}
	started := make(chan error, 1)
	go l.own(started)
	if err := <-started; err != nil {
		_ = block.Free()
		return nil, err
	}
	b, err := json.Marshal(setup{Base: uint64(p.region.base), Size: uint64(p.region.size), Slots: uint64(at), Library: p.c.Library})
	if err != nil {
		return nil, l.fail(&Failure{Kind: Refused, Text: err.Error()})
	}
	_, _ = l.control.Write(b) // a child that has ended says so below
	if err := l.greet(); err != nil {
		select {
		case <-l.gone: // the next one lies where it lay
		case <-time.After(grace): // something that it started holds its connection open
		}
		return nil, err
	}
	close(l.ready)
	return l, nil
}

// greet waits for what the child says first.
func (l *life) greet() error {
	late := time.NewTimer(l.p.c.Start)
	defer late.Stop()
	var h Hello
	select {
	case h = <-l.hello:
	case <-l.deaf: // it may have said why it ends
		select {
		case h = <-l.hello:
		default:
			select {
			case <-l.dead:
				return l.reason
			case <-late.C:
				return l.fail(&Failure{Kind: Corrupt, Text: "closed its connection"})
			}
		}
	case <-late.C:
		return l.fail(&Failure{Kind: Hung, Text: fmt.Sprintf("was not ready after %v", l.p.c.Start)})
	}
	refused := &Failure{Kind: Refused, Text: h.Error, Code: h.Code}
	if h.Error == "" {
		err := l.p.c.Check(h)
		if err == nil {
			return nil
		}
		refused.Text = err.Error()
	}
	_ = l.fail(refused) // it may have ended by itself
	return refused
}

// own starts the child and waits for its end, on one thread: the system ends a child with the thread that started it.
func (l *life) own(started chan<- error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		started <- err
		return
	}
	_ = unix.SetNonblock(pair[0], true) // its reader waits in the poller
	l.control = os.NewFile(uintptr(pair[0]), "control")
	theirs := os.NewFile(uintptr(pair[1]), "control of the child")
	memory, err := unix.FcntlInt(uintptr(l.p.region.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		_, _ = l.control.Close(), theirs.Close()
		started <- err
		return
	}
	shared := os.NewFile(uintptr(memory), "shared memory")
	host := l.p.c.Host
	if len(host) == 0 {
		host = []string{"/proc/self/exe"} // also where the file has been replaced
	}
	l.cmd = exec.Command(host[0], host[1:]...)
	l.cmd.Env = append(os.Environ(), Environment+"=1")
	l.cmd.Stdout, l.cmd.Stderr = os.Stderr, os.Stderr // results go to the parent's output
	l.cmd.ExtraFiles = []*os.File{shared, theirs}
	l.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	err = l.cmd.Start()
	_, _ = shared.Close(), theirs.Close()
	if err != nil {
		_ = l.control.Close()
		started <- err
		return
	}
	go l.listen()
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		l.watch()
	}()
	started <- nil
	l.reason = ending(l.cmd.Wait(), l.cmd.ProcessState)
	if why := l.why.Load(); why != nil {
		l.reason = why
	}
	close(l.dead)
	<-watched
	for range slots { // of calls that are about to fail
		<-l.tickets
	}
	_ = l.control.SetReadDeadline(time.Now().Add(grace)) // what it said last is heard; a process that it left may hold the socket open
	<-l.deaf
	_ = l.control.Close()
	_ = l.block.Free()
	close(l.gone)
}

// ending is how a process has ended.
func ending(err error, st *os.ProcessState) *Failure {
	ws, ok := st.Sys().(syscall.WaitStatus)
	switch {
	case ok && ws.Signaled():
		return &Failure{Kind: Crashed, Text: fmt.Sprintf("was ended by signal %d (%v)", ws.Signal(), ws.Signal())}
	case ok && ws.Exited():
		return &Failure{Kind: Exited, Text: fmt.Sprintf("exited with code %d", ws.ExitStatus())}
	}
	return &Failure{Kind: Exited, Text: fmt.Sprintf("ended: %v", err)}
}

// listen reads the child's messages.
func (l *life) listen() {
	defer close(l.deaf)
	b := make([]byte, maxText+64)
	for {
		n, err := l.control.Read(b)
		if errors.Is(err, syscall.ECONNRESET) {
			continue // it has ended with messages unread; there may be some of it
		}
		if err != nil {
			return
		}
		if why := l.heard(b[:n]); why != nil {
			l.fail(why)
			return
		}
	}
}

// heard takes one message.
func (l *life) heard(b []byte) *Failure {
	bad := &Failure{Kind: Corrupt, Text: "sent a message that cannot be"}
	if len(b) < 4 {
		return bad
	}
	kind, b := binary.LittleEndian.Uint32(b), b[4:]
	switch {
	case kind == messageHello:
		var h Hello
		if json.Unmarshal(b, &h) != nil {
			return bad
		}
		select {
		case l.hello <- h:
		default:
			return bad
		}
	case kind == messageWake && len(b) == 4 && binary.LittleEndian.Uint32(b) < slots:
		l.signal(int(binary.LittleEndian.Uint32(b)))
	case kind == messageDone && len(b) == 12:
		l.p.c.Done(binary.LittleEndian.Uint64(b), int32(binary.LittleEndian.Uint32(b[8:])))
	case kind == messageLog && len(b) >= 4:
		l.p.c.Log(binary.LittleEndian.Uint32(b), string(b[4:]))
	default:
		return bad
	}
	return nil
}

// signal wakes who waits for a slot.
func (l *life) signal(i int) {
	select {
	case l.wake[i] <- struct{}{}:
	default:
	}
}

// watch looks after a life: whether it beats, and whether the states of its slots are ones that there are.
func (l *life) watch() {
	select {
	case <-l.ready:
	case <-l.dead:
		return
	}
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	beat, since := uint64(0), time.Now()
	for {
		select {
		case <-l.dead:
			return
		case now := <-t.C:
			if b := atomic.LoadUint64(&l.area.beat); b != beat {
				beat, since = b, now
			}
			var why *Failure
			if now.Sub(since) > silence {
				why = &Failure{Kind: Hung, Text: fmt.Sprintf("has shown no sign of life for %v", silence)}
			}
			for taken := l.taken.Load(); taken != 0 && why == nil; taken &= taken - 1 {
				i := bits.TrailingZeros64(taken)
				switch st := atomic.LoadUint32(&l.area.slots[i].state); {
				case st > stateUpcall:
					why = l.corrupt(i, st)
				case !mine(st):
					l.signal(i) // whoever waits may not be told, where the child has lost how
				}
			}
			if why == nil && l.p.c.Tick != nil {
				why = l.p.c.Tick(l.number, now)
			}
			if why != nil {
				l.fail(why)
				return
			}
		}
	}
}

func (l *life) corrupt(i int, state uint32) *Failure {
	what := "a call"
	if s := l.what[i].Load(); s != nil {
		what = *s
	}
	return &Failure{Kind: Corrupt, Text: fmt.Sprintf("gave a corrupt reply to %s: state %#x", what, state)}
}

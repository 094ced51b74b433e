package mkl

import (
	"runtime"
	"syscall"

	"github.com/carve-dev/carve/backend"
)

// Creates makes a primitive of many elements for so many threads that there is one executor, and returns the threads of the
// process that made it, and that the executor is.
func Creates(b backend.Backend, elements int) (creator, executor int, err error) {
	l := b.(*mkl).l
	threads := max(runtime.GOMAXPROCS(0), 2)
	m := l.teams.acquire(l, threads)
	defer l.teams.release(m)
	r := l.elementwise(eltTanh, 0, 0, plain(elements))
	if v2 := r.v2; v2 != nil {
		r.v2 = func(op uintptr, d []*desc) error {
			creator = syscall.Gettid()
			return v2(op, d)
		}
	}
	if v3 := r.v3; v3 != nil {
		r.v3 = func(out, attr uintptr, d []*desc) error {
			creator = syscall.Gettid()
			return v3(out, attr, d)
		}
	}
	if _, err := l.primitive(m, r.threads(threads), r); err != nil {
		return 0, 0, err
	}
	err = m.create(func() error {
		executor = syscall.Gettid()
		return nil
	})
	return creator, executor, err
}

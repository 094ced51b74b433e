package mkl

import (
	"os"
	"runtime"
	"strconv"
	"sync"
	"unsafe"

	"github.com/carve-dev/carve/internal/dl"
)

// spinTurns is how often an idle thread of GNU's OpenMP library looks for work before it sleeps: some 25 µs, more than lies
// between two primitives of a group. The library's own 300,000 turns, 3 ms and more, are for programs that have the
// processors to themselves: beside other programs, or within a quota, every primitive waits that long for a thread that is
// not running. Medians of mobilenet_v2 on two threads, which takes 7 ms on one, of a machine of two processors with a load
// of 16: 70 to 430 ms with 300,000 turns, 100 to 180 with 10,000, 19 to 65 with 2,000.
const spinTurns = 2000

const (
	spinVariable = "GOMP_SPINCOUNT"
	waitVariable = "OMP_WAIT_POLICY"
)

// spinning serialises changes of C's environment.
var spinning sync.Mutex

// openPatient opens a library. If that brings GNU's OpenMP library into the process, which reads its settings from C's
// environment then and nowhere else, its threads spin for spinTurns, unless the user's environment says something else.
func openPatient(name string) (*dl.Library, error) {
	_, set1 := os.LookupEnv(spinVariable)
	_, set2 := os.LookupEnv(waitVariable)
	if runtime.GOOS != "linux" || set1 || set2 {
		return dl.Open(name)
	}
	spinning.Lock()
	defer spinning.Unlock()
	for _, c := range []string{"libc.so.6", "libc.so"} { // glibc's, musl's
		l, err := dl.Open(c)
		if err != nil {
			continue
		}
		set, err1 := l.Symbol("setenv")
		unset, err2 := l.Symbol("unsetenv")
		if err1 != nil || err2 != nil {
			continue
		}
		key, value := cString(spinVariable), cString(strconv.Itoa(spinTurns))
		dl.Call(set, uintptr(unsafe.Pointer(key)), uintptr(unsafe.Pointer(value)), 0)
		defer func() {
			dl.Call(unset, uintptr(unsafe.Pointer(key)))
			runtime.KeepAlive(value)
		}()
		break
	}
	return dl.Open(name)
}

// cString returns a string as C has it, in the heap.
func cString(s string) *byte {
	b := append([]byte(s), 0)
	return unsafe.SliceData(b)
}

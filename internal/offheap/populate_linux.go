package offheap

import (
	"os"
	"runtime"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Huge pages cost a third of small ones to make, as a rule. In a virtual machine whose host takes free memory back, or has never given it,
// they cost up to ten times as much: the kernel gives huge pages out of memory that has been free as a whole, which the host then has to
// find and clear, and small ones out of what has lately been in use. Which of the two it is changes while a process runs, so it is measured.
// Where huge pages are not dear, first touch is best: what it has cleared is in the cache when it is written.
const (
	dearHuge  = int64(time.Millisecond) // what a huge page takes where it is worth while to try small ones
	smallRun  = 8                       // huge pages' worth of small ones that are made together
	smallMost = 64                      // as many are made before a huge one is tried again
	cheapRun  = 16                      // huge pages that are left to first touch behind one that was not dear
)

// pageCosts is what making pages took when it was last done, in nanoseconds of the processor for each HugePage bytes; 0 is not known.
// It is a guess that any thread may alter.
var pageCosts struct {
	huge, small atomic.Int64
	smallMade   atomic.Int64 // hugePages' worth of small pages since the last huge one
}

// preferSmall returns how many huge pages' worth of memory is to be made of small pages, 0 where the next page is a huge one.
func preferSmall() int {
	huge, small := pageCosts.huge.Load(), pageCosts.small.Load()
	switch {
	case huge < dearHuge || pageCosts.smallMade.Load() >= smallMost:
		return 0
	case small == 0:
		return 1
	case 2*small < huge:
		return smallRun
	}
	return 0
}

// populate makes the whole small pages of data, and its huge ones, which have been asked for, where that is dear. It is advice: a kernel before 5.14 says no, and makes
// pages at first touch.
func populate(data []byte) {
	runtime.LockOSThread() // whose time is taken
	defer runtime.UnlockOSThread()
	head := min(len(data), distance(data, HugePage))
	if !makePages(data[:head]) {
		return
	}
	for data = data[head:]; len(data) >= HugePage; {
		small := min(preferSmall(), len(data)/HugePage)
		piece := data[:max(small, 1)*HugePage]
		data = data[len(piece):]
		if small > 0 {
			_ = unix.Madvise(piece, unix.MADV_NOHUGEPAGE)
		}
		start := threadTime()
		ok := makePages(piece)
		took := max(1, threadTime()-start)
		if small > 0 {
			adviseHuge(piece) // the kernel may join the pages later
			pageCosts.small.Store(took / int64(small))
			pageCosts.smallMade.Add(int64(small))
		} else {
			pageCosts.huge.Store(took)
			pageCosts.smallMade.Store(0)
			if took < dearHuge {
				data = data[min(cheapRun, len(data)/HugePage)*HugePage:]
			}
		}
		if !ok {
			return
		}
	}
	makePages(data)
}

// makePages makes the whole small pages of data, or the huge ones that they are part of, and reports whether the system did.
func makePages(data []byte) bool {
	page := os.Getpagesize()
	skip := distance(data, page)
	n := (len(data) - skip) / page * page
	return n <= 0 || unix.Madvise(data[skip:skip+n], unix.MADV_POPULATE_WRITE) == nil
}

// distance returns how far behind the beginning of data the next multiple of a power of two lies.
func distance(data []byte, of int) int {
	return int(-uintptr(unsafe.Pointer(unsafe.SliceData(data))) & uintptr(of-1))
}

// threadTime returns the processor time of the thread in nanoseconds.
func threadTime() int64 {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts)
	return ts.Nano()
}

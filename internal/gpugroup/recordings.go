package gpugroup

import "slices"

// Recordings are what a session has recorded an instance's launches as, so that a driver queues them by one call: one for each set of
// places that operands had. Sessions keep their memory, so that mostly there is one; outputs that a caller alternates make several. What
// records, and gives recordings back, is the backend's. It is for one goroutine at a time.
type Recordings struct {
	list         []recording // the one that was used last first
	warm, failed bool
	hits, misses int
}

// recording can be queued as long as operands lie where they lay.
type recording struct {
	bases  []Base
	handle uintptr
}

const (
	mostRecordings = 4
	// Recording costs about as much as launching one by one: where operands lie elsewhere in each run, it does not pay.
	freeMisses, hitsPerMiss = 8, 4
)

// Ready reports whether launches may be recorded: not in the first run, in which a driver may have to load kernels, and not after Fail.
func (r *Recordings) Ready() bool {
	ready := r.warm && !r.failed
	r.warm = true
	return ready
}

// Fail says that launches cannot be recorded, or queued as recorded.
func (r *Recordings) Fail() { r.failed = true }

// Find returns the recording of these places, 0 where there is none. pays says whether one is worth making then.
func (r *Recordings) Find(bases []Base) (handle uintptr, pays bool) {
	for i, x := range r.list {
		if slices.Equal(x.bases, bases) {
			copy(r.list[1:i+1], r.list[:i])
			r.list[0] = x
			r.hits++
			return x.handle, false
		}
	}
	r.misses++
	return 0, r.misses <= freeMisses+r.hits/hitsPerMiss
}

// Keep adds a recording, and returns the one that was not used for longest where there are too many, else 0: it is to be given back.
func (r *Recordings) Keep(bases []Base, handle uintptr) (dropped uintptr) {
	r.list = slices.Insert(r.list, 0, recording{slices.Clone(bases), handle})
	if len(r.list) > mostRecordings {
		dropped = r.list[mostRecordings].handle
		r.list = r.list[:mostRecordings]
	}
	return dropped
}

// Drop removes all recordings, and returns them: they are to be given back.
func (r *Recordings) Drop() (handles []uintptr) {
	for _, x := range r.list {
		handles = append(handles, x.handle)
	}
	r.list = nil
	return handles
}

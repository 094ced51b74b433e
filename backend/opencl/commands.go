package opencl

import (
	"runtime"
	"slices"
	"strings"
	"sync"

	"github.com/carve-dev/carve/internal/gpugroup"
)

// Command buffers (cl_khr_command_buffer) are queued launches that are made once: from the second run on a group is queued by one call,
// as long as its operands lie where they lay.

// deviceExtensions is a number of OpenCL's.
const deviceExtensions = 0x1030

// commands are the functions of the extension.
type commands struct{ create, kernel, finalize, enqueue, release uintptr }

// findCommands returns the functions of a device that has the extension, nil for another.
func (l *library) findCommands(c *call, platform, handle uintptr) *commands {
	if l.extension == 0 || !slices.Contains(strings.Fields(c.stringOf(l, "clGetDeviceInfo", handle, deviceExtensions)), "cl_khr_command_buffer") {
		return nil
	}
	var x commands
	for name, to := range map[string]*uintptr{
		"clCreateCommandBufferKHR": &x.create, "clCommandNDRangeKernelKHR": &x.kernel, "clFinalizeCommandBufferKHR": &x.finalize,
		"clEnqueueCommandBufferKHR": &x.enqueue, "clReleaseCommandBufferKHR": &x.release,
	} {
		b := text(name)
		*to = c.invoke(l.extension, platform, at(&b[0]))
		runtime.KeepAlive(b)
		if *to == 0 {
			return nil
		}
	}
	return &x
}

// recorded are the command buffers of an instance in a session.
type recorded struct {
	d *clDevice

	mu      sync.Mutex // of a run and of what ends them
	kept    gpugroup.Recordings
	kernels map[uintptr][]uintptr // by command buffer: its own, as some drivers read arguments when it is queued
}

// end gives the command buffers back.
func (r *recorded) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, handle := range r.kept.Drop() {
		r.release(handle)
	}
}

// release gives a command buffer back, with its kernels.
func (r *recorded) release(handle uintptr) {
	if handle == 0 {
		return
	}
	c := newCall()
	defer c.done()
	c.invoke(r.d.commands.release, handle) // there is nobody to tell
	for _, k := range r.kernels[handle] {
		r.d.l.release("clReleaseKernel", k)
	}
	delete(r.kernels, handle)
}

// place notes where operands lie, and the queue: a block that was freed may have given its handle to another, so that its number counts
// too. It reports false where a block is none of the device's.
func (st *state) place(queue uintptr) bool {
	n := len(st.bases)
	st.in.d.mu.RLock()
	defer st.in.d.mu.RUnlock()
	for i, b := range st.bases {
		st.places[n+i] = gpugroup.Base{}
		if b.Handle == 0 {
			continue
		}
		block, known := st.in.d.blocks[b.Handle]
		if !known {
			return false
		}
		st.places[n+i].Handle = block.number
	}
	st.places[2*n] = gpugroup.Base{Handle: queue}
	return true
}

// replay queues the group as a command buffer, which is recorded where there is none, and leaves its event in c.word. It reports false
// where nothing was queued: in the first run, and where recording fails or does not pay.
func (st *state) replay(c *call, queue uintptr, together bool) bool {
	r, d := st.recorded, st.in.d
	if d.commands == nil || !st.in.record || len(st.in.kernels) < 2 {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.kept.Ready() || !st.place(queue) {
		return false
	}
	handle, pays := r.kept.Find(st.places)
	if handle == 0 {
		if !pays {
			return false
		}
		if handle = st.recordOn(c, queue, together); handle == 0 {
			r.kept.Fail()
			return false
		}
		r.release(r.kept.Keep(st.places, handle))
	}
	c.word = 0
	d.l.called.recorded.Add(1)
	if int32(c.invoke(d.commands.enqueue, 0, 0, handle, 0, 0, at(&c.word))) != 0 {
		r.kept.Fail() // nothing was queued
		return false
	}
	return true
}

// recordOn records the launches for a queue, one behind the other or in waves, and returns the command buffer; 0 where that fails.
func (st *state) recordOn(c *call, queue uintptr, together bool) uintptr {
	d := st.in.d
	c.word, c.status = queue, 0
	handle := c.invoke(d.commands.create, 1, at(&c.word), 0, at(&c.status))
	if c.status != 0 || handle == 0 {
		return 0
	}
	points := make([]uint32, len(st.in.kernels))
	wave, before := 0, 0 // the first step of this wave, and of the one that it waits for
	for i, k := range st.in.kernels {
		if i > 0 && (!together || st.waves.waits[i]) {
			wave, before = i, wave
		}
		if err := st.command(c, handle, i, k, points, points[before:wave]); err != nil {
			st.recorded.release(handle)
			return 0
		}
	}
	runtime.KeepAlive(points)
	if int32(c.invoke(d.commands.finalize, handle)) != 0 {
		st.recorded.release(handle)
		return 0
	}
	return handle
}

// command records a launch behind those with these points.
func (st *state) command(c *call, buffer uintptr, i int, k *kernel, points, before []uint32) error {
	d := st.in.d
	own, err := c.create(d.l, "clCreateKernel", k.program, at(&k.name[0]))
	if err != nil {
		return err
	}
	st.recorded.kernels[buffer] = append(st.recorded.kernels[buffer], own)
	if err := d.setArguments(c, own, st.in.group.Steps[i].Launch, st.base(i)); err != nil {
		return err
	}
	waits, behind := uintptr(0), uintptr(0)
	if len(before) > 0 {
		waits, behind = uintptr(len(before)), at(&before[0])
	}
	return check("clCommandNDRangeKernelKHR", int32(c.invoke(d.commands.kernel, buffer, 0, 0, own, 3, 0, at(&c.global[0]), at(&c.local[0]),
		waits, behind, at(&points[i]), 0)))
}

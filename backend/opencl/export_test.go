package opencl

import (
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/internal/dl"
)

// WatchCommands has watch told of each command buffer that is queued on the device of a backend; where it returns another status than 0, that
// is the driver's. restore ends it. ok is false where the device has no command buffers.
func WatchCommands(b backend.Backend, watch func() int32) (restore func(), ok bool) {
	d := b.(*opencl).on()
	was := d.commands
	if was == nil {
		return nil, false
	}
	mine := *was
	mine.enqueue = dl.Callback(func(queues, list, buffer, events, waits, event uintptr) uintptr {
		if status := watch(); status != 0 {
			return uintptr(uint32(status))
		}
		return dl.Call(was.enqueue, queues, list, buffer, events, waits, event)
	})
	d.commands = &mine
	return func() { d.commands = was }, true
}

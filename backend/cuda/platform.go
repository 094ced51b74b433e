package cuda

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/graph/tensor"
	"github.com/carve-dev/carve/internal/gpukernel"
)

// Numbers of a device's attributes.
const (
	attributeClock       = 13 // kHz
	attributeProcessors  = 16
	attributeMemoryClock = 36 // kHz
	attributeBus         = 37 // bits
	attributeMajor       = 75
	attributeMinor       = 76
	attributeLocal       = 97 // bytes of shared memory that a block may ask for
)

// facts are what is known of a device. They are immutable.
type facts struct {
	name       string
	capability int // 86 for 8.6
	processors int
	local      int // bytes of shared memory that a block may ask for, 0 where that is not known
	memory     int64

	clock, memoryClock int // kHz, 0 where the driver does not say
	bus                int // bits, 0 where the driver does not say
}

// String names the device, and says what it is like.
func (f *facts) String() string {
	return fmt.Sprintf("%s, compute capability %d.%d, %d multiprocessors", f.name, f.capability/10, f.capability%10, f.processors)
}

// kernels is what the choice of kernels depends on.
func (f *facts) kernels() gpukernel.Device {
	d := gpukernel.NVIDIA(f.capability, max(f.processors, 1))
	d.Local = min(d.Local, cmp.Or(f.local, d.Local))
	return d
}

// list finds the driver's devices, once, in its order.
func (l *library) list() ([]*gpu, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.devices != nil {
		return l.devices, nil
	}
	c := newCall(l)
	defer c.done()
	if err := c.do(fnInit, 0); err != nil {
		var e *Error
		if errors.As(err, &e) && e.Code == codeNoDevice {
			return nil, fmt.Errorf("the driver %s finds no device: %w", l.path, err)
		}
		return nil, err
	}
	c.number = 0
	if err := c.do(fnDeviceGetCount, at(&c.number)); err != nil {
		return nil, err
	}
	if c.number <= 0 {
		return nil, fmt.Errorf("the driver %s finds no device", l.path)
	}
	var found []*gpu
	for i := range int(c.number) {
		d := &gpu{l: l, id: tensor.DeviceID{Type: tensor.CUDA, Index: int32(i)}}
		if err := d.learn(c); err != nil {
			return nil, fmt.Errorf("device %d: %w", i, err)
		}
		d.programs.Free = func(p *program) { d.unload(p) }
		d.prebuilt.Free = d.programs.Free
		found = append(found, d)
	}
	l.devices = found
	return found, nil
}

// device returns the device of that name, nil where the driver has none.
func (l *library) device(id tensor.DeviceID) *gpu {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range l.devices {
		if d.id == id {
			return d
		}
	}
	return nil
}

// learn asks for a device's facts.
func (d *gpu) learn(c *call) error {
	c.number = 0
	if err := c.do(fnDeviceGet, at(&c.number), uintptr(d.id.Index)); err != nil {
		return err
	}
	d.ordinal = c.number
	name := make([]byte, 256)
	if err := c.do(fnDeviceGetName, at(&name[0]), uintptr(len(name)), uintptr(d.ordinal)); err != nil {
		return err
	}
	d.facts.name = untilZero(name)
	var major, minor int
	for _, a := range []struct {
		what uintptr
		to   *int
	}{{attributeMajor, &major}, {attributeMinor, &minor}, {attributeProcessors, &d.facts.processors}, {attributeLocal, &d.facts.local}} {
		c.number = 0
		if err := c.do(fnDeviceGetAttribute, at(&c.number), a.what, uintptr(d.ordinal)); err != nil {
			return err
		}
		*a.to = int(c.number)
	}
	d.facts.capability = 10*major + minor
	for _, a := range []struct {
		what uintptr
		to   *int
	}{{attributeClock, &d.facts.clock}, {attributeMemoryClock, &d.facts.memoryClock}, {attributeBus, &d.facts.bus}} {
		c.number = 0
		if c.do(fnDeviceGetAttribute, at(&c.number), a.what, uintptr(d.ordinal)) == nil { // else something is assumed
			*a.to = int(max(c.number, 0))
		}
	}
	memory, err := c.create(fnDeviceTotalMem, uintptr(d.ordinal))
	d.facts.memory = int64(memory)
	return err
}

// choose returns the devices that an option names, by number or by a part of the name in any case; all for "".
func choose(devices []*gpu, option string) ([]*gpu, error) {
	number, err := strconv.Atoi(option)
	byNumber := err == nil
	var list []*gpu
	var there []string
	for i, d := range devices {
		there = append(there, fmt.Sprintf("%d (%s)", i, d.facts.name))
		if byNumber && i == number || !byNumber && strings.Contains(strings.ToLower(d.facts.name), strings.ToLower(option)) {
			list = append(list, d)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: device %q names none of %s", backend.ErrOption, option, strings.Join(there, "; "))
	}
	return slices.Clip(list), nil
}

package opencl

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

// Numbers of OpenCL's.
const (
	platformVersion = 0x901
	platformName    = 0x902

	deviceTypeCPU, deviceTypeGPU, deviceTypeAccelerator = 2, 4, 8
	deviceTypeAll                                       = 0xffffffff

	deviceType, deviceVendor                    = 0x1000, 0x1001
	deviceUnits, deviceGroup, deviceClock       = 0x1002, 0x1004, 0x100c
	deviceAddressBits, deviceMostAlloc          = 0x100d, 0x1010
	deviceMemory, deviceLocal                   = 0x101f, 0x1023
	deviceLittle, deviceAvailable, deviceBuilds = 0x1026, 0x1027, 0x1028
	deviceQueues                                = 0x102a
	deviceName, driverVersion, deviceVersion    = 0x102b, 0x102d, 0x102f
	deviceDoubles                               = 0x1032
	deviceUnified, deviceVector                 = 0x1035, 0x103a

	platformNone = -1001
	deviceNone   = -1
)

// facts are what is known of a device. They are immutable.
type facts struct {
	platform, platformVersion  string
	name, version, driver      string
	kind                       uint64
	units, group, local        int
	vector                     int // floats in a register
	vendor                     uint32
	clock                      int  // MHz, 0 where it is not known
	unified                    bool // its memory is the host's
	doubles                    bool // it has double precision
	loose                      bool // it has queues out of order
	memory, mostAlloc          int64
	platformNumber, deviceHere int // places in the lists of platforms and of the platform's devices
}

// String names the device with its platform and driver.
func (f *facts) String() string {
	kind := map[uint64]string{deviceTypeCPU: "CPU", deviceTypeGPU: "GPU", deviceTypeAccelerator: "accelerator"}[f.kind&^1]
	return fmt.Sprintf("%s, %s, %d compute units", f.name, cmp.Or(kind, "device"), f.units)
}

// kernels is what the choice of kernels depends on.
func (f *facts) kernels() gpukernel.Device {
	d := gpukernel.Generic(f.units, f.local)
	d.Double = f.doubles
	if f.kind&deviceTypeCPU != 0 {
		d.Vector = min(max(f.vector, 4), 16)
	}
	return d
}

// list finds the library's devices, once: GPUs first, then accelerators, then processors, otherwise in the library's order. Their
// numbers among the process's memory spaces are places in that list.
func (l *library) list() ([]*clDevice, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listed {
		return l.devices, nil
	}
	c := newCall()
	defer c.done()
	platforms, err := l.objects(c, "clGetPlatformIDs")
	if err != nil {
		return nil, err
	}
	var found []*clDevice
	var reasons []error
	for i, p := range platforms {
		devices, err := l.objects(c, "clGetDeviceIDs", p, deviceTypeAll)
		if err != nil {
			reasons = append(reasons, err)
		}
		for k, d := range devices {
			x := &clDevice{l: l, handle: d, facts: facts{platformNumber: i, deviceHere: k}}
			x.learn(c, p)
			if why := x.unfit(c); why != nil {
				reasons = append(reasons, fmt.Errorf("%s: %w", x.facts.name, why))
				continue
			}
			found = append(found, x)
		}
	}
	if len(found) == 0 {
		return nil, fmt.Errorf("%w: %s knows %d platforms and no device that serves: %w", backend.ErrUnavailable, l.path, len(platforms), errors.Join(reasons...))
	}
	rank := map[uint64]int{deviceTypeGPU: -2, deviceTypeAccelerator: -1}
	slices.SortStableFunc(found, func(a, b *clDevice) int { return cmp.Compare(rank[a.facts.kind&^1], rank[b.facts.kind&^1]) })
	for i, d := range found {
		d.id = tensor.DeviceID{Type: tensor.OpenCL, Index: int32(i)}
	}
	l.devices, l.listed = found, true
	return found, nil
}

// objects asks for a list of objects; one that is empty is no error.
func (l *library) objects(c *call, function string, args ...uintptr) ([]uintptr, error) {
	c.value = 0
	err := c.do(l, function, append(slices.Clone(args), 0, 0, at(&c.value))...)
	var e *Error
	if errors.As(err, &e) && (e.Status == platformNone || e.Status == deviceNone) {
		return nil, nil
	}
	n := int(uint32(c.value))
	if err != nil || n == 0 {
		return nil, err
	}
	list := make([]uintptr, n)
	return list, c.do(l, function, append(slices.Clone(args), uintptr(n), at(&list[0]), 0)...)
}

func (d *clDevice) learn(c *call, platform uintptr) {
	number := func(what uintptr) uint64 { return c.numberOf(d.l, "clGetDeviceInfo", d.handle, what) }
	words := func(what uintptr) string { return c.stringOf(d.l, "clGetDeviceInfo", d.handle, what) }
	f := &d.facts
	f.platform = c.stringOf(d.l, "clGetPlatformInfo", platform, platformName)
	f.platformVersion = c.stringOf(d.l, "clGetPlatformInfo", platform, platformVersion)
	f.name, f.version, f.driver = words(deviceName), words(deviceVersion), words(driverVersion)
	f.kind, f.units, f.group = number(deviceType), int(number(deviceUnits)), int(number(deviceGroup))
	f.vector, f.clock = int(uint32(number(deviceVector))), int(uint32(number(deviceClock)))
	f.vendor, f.unified = uint32(number(deviceVendor)), uint32(number(deviceUnified)) != 0
	f.doubles = number(deviceDoubles) != 0
	f.loose = number(deviceQueues)&outOfOrder != 0
	d.commands = d.l.findCommands(c, platform, d.handle)
	f.local, f.memory, f.mostAlloc = int(number(deviceLocal)), int64(number(deviceMemory)), int64(number(deviceMostAlloc))
}

// unfit is the reason why a device cannot be used, nil where it can.
func (d *clDevice) unfit(c *call) error {
	number := func(what uintptr) uint64 { return c.numberOf(d.l, "clGetDeviceInfo", d.handle, what) }
	var major, minor int
	if _, err := fmt.Sscanf(d.facts.version, "OpenCL %d.%d", &major, &minor); err != nil || major*10+minor < 12 {
		return fmt.Errorf("its version is %q, and 1.2 is needed", d.facts.version)
	}
	switch {
	case uint32(number(deviceAvailable)) == 0:
		return errors.New("it is not available")
	case uint32(number(deviceBuilds)) == 0:
		return errors.New("its driver has no compiler")
	case uint32(number(deviceLittle)) == 0:
		return errors.New("its bytes are big-endian")
	case number(deviceAddressBits) != 64:
		return fmt.Errorf("its addresses have %d bits", number(deviceAddressBits))
	case d.facts.group < mostThreads:
		return fmt.Errorf("its work-groups have at most %d items, and %d are needed", d.facts.group, mostThreads)
	}
	return nil
}

// mostThreads is the most work items that a group of gpukernel's has.
const mostThreads = 256

// choose returns the devices that options name, by number or by a part of the name in any case; all for options that are absent.
func choose(devices []*clDevice, platform, name string) ([]*clDevice, error) {
	matches := func(option string, number int, names ...string) bool {
		if n, err := strconv.Atoi(option); err == nil {
			return n == number
		}
		return slices.ContainsFunc(names, func(s string) bool { return strings.Contains(strings.ToLower(s), strings.ToLower(option)) })
	}
	var list []*clDevice
	var there []string
	for _, d := range devices {
		f := &d.facts
		there = append(there, fmt.Sprintf("platform %d (%s) device %d (%s)", f.platformNumber, f.platform, f.deviceHere, f.name))
		if matches(platform, f.platformNumber, f.platform) && matches(name, f.deviceHere, f.name) {
			list = append(list, d)
		}
	}
	if len(list) == 0 {
		return nil, fmt.Errorf("%w: platform %q and device %q name none of %s", backend.ErrOption, platform, name, strings.Join(there, "; "))
	}
	return list, nil
}

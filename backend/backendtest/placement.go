package backendtest

import (
	"fmt"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/property"
)

// placement tries a backend on each of its devices, alone and with the nodes of one network spread over all of them.
func (s *suite) placement(t tester) {
	b := s.backend(t)
	p, ok := b.(backend.Placeable)
	devices := b.Devices()
	if !ok || len(devices) < 2 {
		t.Skip("the backend has one device to run groups on")
	}
	name, c := b.Info().Name, network
	var indices []int
	for i, d := range devices {
		indices = append(indices, i)
		v, err := p.On(d.ID())
		if err != nil {
			t.Fatalf("On(%v): %v", d.ID(), err)
		}
		if got, want := v.Info().Name, entryName(name, i); got != want {
			t.Errorf("on %v it is named %q, not %q", d.ID(), got, want)
		}
		if got := v.Devices()[0].ID(); got != d.ID() {
			t.Errorf("on %v its first device is %v", d.ID(), got)
		}
		if err := v.Close(); err != nil {
			t.Errorf("Close on %v: %v", d.ID(), err)
		}
		alone, err := compile(t, c.parse(t), b, carve.Options{Devices: map[string][]int{name: {i}}})
		if err != nil {
			t.Fatalf("on %v: %v", d.ID(), err)
		}
		agree(t, c, alone, nil)
		if mine, _ := share(t, alone, entryName(name, i)); mine == 0 {
			t.Errorf("nothing runs on %v", d.ID())
		}
	}
	o := carve.Options{Devices: map[string][]int{name: indices}}
	k := 0
	for n := range c.parse(t).Nodes() {
		if b.Supports(n).Reason == nil {
			o.Pins = append(o.Pins, property.Pin{Node: n.Name, Backend: fmt.Sprintf("%s:%d", name, k%len(devices))})
			k++
		}
	}
	spread, err := compile(t, c.parse(t), b, o)
	if err != nil {
		t.Fatal(err)
	}
	agree(t, c, spread, nil)
}

// entryName is the name of a backend on device i.
func entryName(name string, i int) string {
	if i == 0 {
		return name
	}
	return fmt.Sprintf("%s:%d", name, i)
}

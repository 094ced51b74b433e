package cli

import (
	"fmt"
	"os"
	"strings"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/partition"
	"github.com/carve-dev/carve/property"
)

// applyPins reads --pin: the last "=" stands before the backend, since names of nodes may have others.
func (f *modelFlags) applyPins(o *carve.Options) error {
	for _, s := range f.pins {
		at := strings.LastIndexByte(s, '=')
		if at <= 0 {
			return fmt.Errorf("--pin %s: expected NODE=BACKEND", s)
		}
		name, exclude := strings.CutPrefix(s[at+1:], "!")
		if name == "" {
			return fmt.Errorf("--pin %s: expected NODE=BACKEND", s)
		}
		if !exclude && !f.listed(name) {
			return fmt.Errorf("--pin %s: --backend does not name %q", s, name)
		}
		o.Pins = append(o.Pins, partition.Pin{Node: s[:at], Backend: name, Exclude: exclude})
	}
	return nil
}

// listed reports whether a backend is among those of --backend, or follows them implicitly.
func (f *modelFlags) listed(name string) bool {
	list := []string{"cpu"}
	if len(f.backends) > 0 {
		list = f.backends
	}
	if !f.strict {
		list = append(list[:len(list):len(list)], "cpu", "reference")
	}
	base, _, _ := property.CutDevice(name)
	for _, b := range list {
		of, _, _ := property.CutDevice(strings.TrimSpace(b))
		if of == base {
			return true
		}
	}
	return false
}

// applyConfigFile reads --config. Its pins stand behind those of --pin, so that these count first.
func (f *modelFlags) applyConfigFile(o *carve.Options) error {
	if f.config == "" {
		return nil
	}
	file, err := os.Open(f.config)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	defer file.Close()
	c, err := property.ReadConfig(file)
	if err != nil {
		return fmt.Errorf("--config %s: %w", f.config, err)
	}
	o.Pins = append(o.Pins, c.Pins...)
	for name, list := range c.Properties {
		addProperties(o, name, list...)
	}
	return nil
}

// applyProperties reads --property, BACKEND.NAME or BACKEND.NAME=OPTIONS.
func (f *modelFlags) applyProperties(o *carve.Options) error {
	for _, s := range f.properties {
		left, options, given := strings.Cut(s, "=")
		name, driver, ok := strings.Cut(left, ".")
		if !ok || name == "" || driver == "" {
			return fmt.Errorf("--property %s: expected BACKEND.NAME or BACKEND.NAME=OPTIONS", s)
		}
		var raw []byte
		if given {
			raw = []byte(options)
		}
		p, err := property.Open(driver, raw)
		if err != nil {
			return fmt.Errorf("--property %s: %w", s, err)
		}
		addProperties(o, name, p)
	}
	return nil
}

func addProperties(o *carve.Options, backend string, list ...property.SubgraphProperty) {
	if o.Properties == nil {
		o.Properties = map[string][]property.SubgraphProperty{}
	}
	o.Properties[backend] = append(o.Properties[backend], list...)
}

func (f *modelFlags) applyHint(o *carve.Options) (err error) {
	if f.hint != "" {
		if o.Profile, err = carve.ParseProfile(f.hint); err != nil {
			return fmt.Errorf("--hint %s: %w", f.hint, err)
		}
	}
	return nil
}

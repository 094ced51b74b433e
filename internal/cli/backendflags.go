package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/carve-dev/carve/backend"
	"github.com/carve-dev/carve/property"
)

// configs returns the backends of --backend and --backend-option, in order.
func (f *modelFlags) configs() ([]backend.Config, error) {
	names := f.backends
	if len(names) == 0 {
		names = []string{"cpu"}
	}
	known := backend.Names()
	libraries, err := f.libraries()
	if err != nil {
		return nil, err
	}
	for _, l := range libraries {
		for _, p := range l.Processors {
			known = append(known, p.Name)
		}
	}
	var out []backend.Config
	for _, name := range names {
		name = strings.TrimSpace(name)
		if name == "" {
			return nil, fmt.Errorf("--backend %s: a name is empty", strings.Join(names, ","))
		}
		if base, _, _ := property.CutDevice(name); !slices.Contains(known, base) {
			return nil, fmt.Errorf("--backend %s: %w (known: %s)", name, backend.ErrUnknown, strings.Join(known, ", "))
		}
		if slices.ContainsFunc(out, func(c backend.Config) bool { return c.Name == name }) {
			return nil, fmt.Errorf("--backend %s: %q is named twice", strings.Join(names, ","), name)
		}
		out = append(out, backend.Config{Name: name})
	}
	for _, s := range f.backendOptions {
		name, key, value, err := cutOption(s)
		if err != nil {
			return nil, err
		}
		known := false
		for i, c := range out {
			base, _, _ := property.CutDevice(c.Name)
			if known = known || base == name; base != name {
				continue
			}
			if c.Options == nil {
				out[i].Options = map[string]string{}
			}
			out[i].Options[key] = value // on all its devices
		}
		if !known {
			return nil, fmt.Errorf("--backend-option %s: --backend does not name %q", s, name)
		}
	}
	return out, nil
}

// libraries opens those of --plugin, where --backend-option says.
func (f *modelFlags) libraries() ([]*backend.Library, error) {
	asked, err := optionsOf(f.backendOptions)
	if err != nil {
		return nil, err
	}
	given, err := f.givenToPlugins()
	if err != nil {
		return nil, err
	}
	list, _, err := backend.Libraries(given, asked, f.plugins...)
	return list, err
}

// givenToPlugins returns the options of --plugin-option.
func (f *modelFlags) givenToPlugins() (map[string]string, error) {
	var out map[string]string
	for _, s := range f.pluginOptions {
		key, value, ok := strings.Cut(s, "=")
		if !ok || key == "" {
			return nil, fmt.Errorf("--plugin-option %s: expected KEY=VALUE", s)
		}
		if out == nil {
			out = map[string]string{}
		}
		out[key] = value
	}
	return out, nil
}

// optionsOf returns the options of --backend-option by backend, those that no backend was named for as well.
func optionsOf(options []string) ([]backend.Config, error) {
	var out []backend.Config
	for _, s := range options {
		name, key, value, err := cutOption(s)
		if err != nil {
			return nil, err
		}
		i := slices.IndexFunc(out, func(c backend.Config) bool { return c.Name == name })
		if i < 0 {
			i, out = len(out), append(out, backend.Config{Name: name, Options: map[string]string{}})
		}
		out[i].Options[key] = value
	}
	return out, nil
}

// cutOption reads BACKEND.KEY=VALUE.
func cutOption(s string) (name, key, value string, err error) {
	left, value, ok := strings.Cut(s, "=")
	name, key, dotted := strings.Cut(left, ".")
	if !ok || !dotted || name == "" || key == "" {
		return "", "", "", fmt.Errorf("--backend-option %s: expected BACKEND.KEY=VALUE", s)
	}
	return name, key, value, nil
}

// backendList returns the names of the backends, joined by commas.
func (f *modelFlags) backendList() string {
	if len(f.backends) == 0 {
		return "cpu"
	}
	return strings.Join(f.backends, ",")
}

package plugin

import "github.com/carve-dev/carve/backend"

func init() {
	backend.RegisterOpener(func(path string) ([]backend.Processor, error) {
		l, err := Open(path)
		if err != nil {
			return nil, err
		}
		var list []backend.Processor
		for _, p := range l.processors {
			list = append(list, backend.Processor{Name: p.Name, Version: p.Version, Arch: p.Arch, Path: path,
				Driver: func(c backend.Config) (backend.Backend, error) { return l.Open(p.Name, c.Options) }})
		}
		return list, nil
	})
}

package repository

import (
	"context"
	"encoding/base64"
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing/fstest"
	"time"

	"github.com/carve-dev/carve/examples/server/oip"
)

// Poll looks at the root once and follows it: models that are new or have changed are loaded, those that are gone are unloaded. A
// change counts when two calls in a row, some time apart, have seen the same sizes and times of all files, so that what is still
// being copied is not read. A model that does not load leaves the one before in its place, until its files change again.
func (r *Repository) Poll(ctx context.Context) error {
	folders, err := r.scan()
	if err != nil {
		return err
	}
	var failed error
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		f := folders[name]
		stamp := f.all()
		r.mu.Lock()
		held := r.seen[name] == stamp
		r.seen[name] = stamp
		r.mu.Unlock()
		e := r.entry(name, true)
		if !held || !e.differs(f) {
			continue
		}
		if err := r.reload(ctx, e, f, source{fsys: r.fsys, dir: r.dir}, nil); err != nil {
			failed = errors.Join(failed, err)
		}
	}
	for name := range *r.all.Load() {
		if folders[name] == nil {
			r.remove(name)
		}
	}
	return errors.Join(failed, ctx.Err())
}

// differs reports whether a folder has something else than what is loaded, or was tried and did not load.
func (e *entry) differs(f *folder) bool {
	e.loading.Lock()
	defer e.loading.Unlock()
	if e.tried == f.all() {
		return false
	}
	return e.current.Load().stamp != f.all()
}

// remove forgets a name whose files are gone.
func (r *Repository) remove(name string) {
	if err := r.Unload(name); err != nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.models, name)
	delete(r.seen, name)
	r.publish()
}

// PollEvery calls Poll again and again until ctx ends.
func (r *Repository) PollEvery(ctx context.Context, interval time.Duration) {
	every(ctx, interval, func() {
		if err := r.Poll(ctx); err != nil && ctx.Err() == nil {
			r.o.Logger.WarnContext(ctx, "polling", "error", err)
		}
	})
}

// Tidy forgets sequences that were idle for too long, and unloads models where memory has grown beyond its limit.
func (r *Repository) Tidy() {
	for _, v := range r.All() {
		if v.Sequences != nil {
			v.Sequences.Expire()
		}
	}
	if r.o.MemoryLimit > 0 {
		r.makeRoom(0)
	}
}

// TidyEvery calls Tidy again and again until ctx ends.
func (r *Repository) TidyEvery(ctx context.Context, interval time.Duration) {
	every(ctx, interval, r.Tidy)
}

// every calls f after each interval until ctx ends.
func every(ctx context.Context, interval time.Duration, f func()) {
	tick := time.NewTicker(interval)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			f()
		}
	}
}

// Upload is what a load call may carry.
type Upload struct {
	Config []byte            // in JSON; nil for the one of the folder
	Files  map[string][]byte // by path below the model's folder, in the place of that folder; they stay in memory
}

// Load loads a model, or what has changed of it. The error leaves what was loaded before as it was.
func (r *Repository) Load(ctx context.Context, name string, u Upload) error {
	var override *Config
	var err error
	if u.Config != nil {
		if override, err = ParseJSON(u.Config); err != nil {
			return oip.Errorf(oip.InvalidArgument, "%w", err)
		}
	}
	from := source{fsys: r.fsys, dir: r.dir}
	var f *folder
	if len(u.Files) > 0 {
		if override == nil {
			return oip.Errorf(oip.InvalidArgument, "a load with files needs the parameter config")
		}
		if f, from, err = uploaded(name, u.Files); err != nil {
			return err
		}
	} else if f, err = r.find(name); err != nil {
		return oip.Errorf(oip.Internal, "the repository cannot be read: %w", err)
	}
	if f == nil {
		return oip.Errorf(oip.NotFound, "failed to load '%.200s', no such model in the repository", name)
	}
	lies := len(u.Files) == 0
	e := r.entry(name, lies)
	err = r.reload(ctx, e, f, from, override)
	for errors.Is(err, errOver) {
		e = r.entry(name, lies)
		err = r.reload(ctx, e, f, from, override)
	}
	if err != nil {
		e.loading.Lock()
		r.spend(e)
		e.loading.Unlock()
		var own *oip.Error
		if errors.As(err, &own) {
			return err
		}
		return oip.Errorf(oip.InvalidArgument, "failed to load '%s': %w", name, err)
	}
	return nil
}

// maxName bounds the name of a model that comes with a call, in bytes, as file systems do for those that lie in folders.
const maxName = 255

// uploaded returns the folder that files of a load call make.
func uploaded(name string, files map[string][]byte) (*folder, source, error) {
	if !fs.ValidPath(name) || strings.Contains(name, "/") || name == "." || len(name) > maxName {
		return nil, source{}, oip.Errorf(oip.InvalidArgument, "model name %.200q", name)
	}
	m, now, total := fstest.MapFS{}, time.Now(), int64(0)
	for file, data := range files {
		at := name + "/" + file
		if !fs.ValidPath(at) {
			return nil, source{}, oip.Errorf(oip.InvalidArgument, "file name %.200q", file)
		}
		total += int64(len(data))
		m[at] = &fstest.MapFile{Data: data, Mode: 0o444, ModTime: now}
	}
	f, err := readFolder(m, name, name)
	return f, source{fsys: m, bytes: total}, err
}

// DecodeFile decodes a file of a load call in JSON.
func DecodeFile(name, text string) ([]byte, error) {
	b, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, oip.Errorf(oip.InvalidArgument, "file %.200q is no base64: %w", name, err)
	}
	return b, nil
}

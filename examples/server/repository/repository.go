package repository

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/carve-dev/carve"
	"github.com/carve-dev/carve/examples/server/oip"
)

// Options are the settings of Open.
type Options struct {
	// Compile has the compiler's settings for all models. Weights of files are copied, so that a file which is written over does
	// not change what is served.
	Compile carve.Options
	// Single is the name of the one model whose files are the root; "" for a root of many.
	Single string
	// Explicit leaves models unloaded until Load is called.
	Explicit bool
	// MemoryLimit bounds the bytes that compiled models hold outside of Go's heap, as measured, and those of files that came with
	// calls, and what the runs of one of them take, those of model_warmup among them; 0 means no bound, 4 GiB for a run of model_warmup.
	// Models that were not used for the longest are unloaded for others, and loaded again by the next request;
	// files stay for that.
	MemoryLimit int64
	// Runs is how many runs of all models there are at a time; more of them wait, by priority and then by arrival. It is also what
	// Compile's Threads and MaxSessions are where those are 0. 0 means GOMAXPROCS. A model with more sessions than that, such as one
	// on a device, is not counted.
	Runs int
	// Crowded is called when a run ends and for a millisecond or more there have been as many as Runs without a break, while requests are
	// turned down or a queue is half full, since those that are to be turned down may have waited for a processor; still reports whether that
	// is so again. nil means nobody. It may be called often, and by many goroutines.
	Crowded func(still func() bool)
	// Queue is the most requests of a version that wait for a run; 0 means 512.
	Queue int
	// Batch joins requests of models that have no configuration, where their rows allow it, into runs of so many rows at most; 0
	// leaves them alone.
	Batch int
	// Logger is told of models that come and go; nil discards it.
	Logger *slog.Logger
}

// Repository is a set of models that can be asked for by name. It is safe for concurrent use.
type Repository struct {
	o    Options
	fsys fs.FS
	dir  string // of the system's, "" for other file systems

	mu     sync.Mutex // guards models, seen, spent and closed
	models map[string]*entry
	seen   map[string]string // stamps at the last poll
	spent  []string          // names that came with calls alone and stand for nothing now, the oldest first
	closed bool

	all   atomic.Pointer[map[string]*entry] // the same, for requests
	room  sync.Mutex                        // one look for room at a time
	uses  atomic.Int64                      // of all versions
	gate  gate                              // of runs of all versions
	apart runners                           // of long ones
}

// entry is one model's name.
type entry struct {
	name    string
	loading sync.Mutex       // one load at a time
	stats   map[int64]*Stats // guarded by loading
	tried   string           // the stamp of the last load that failed, guarded by loading
	over    bool             // the name has been forgotten, guarded by loading
	lies    bool             // the name lies in the root, or did: it is never forgotten, guarded by Repository.mu
	change  sync.Mutex       // held while current is replaced; taken after loading
	current atomic.Pointer[snapshot]
}

// snapshot is what a name stands for; immutable.
type snapshot struct {
	versions []*slot // in ascending order
	reasons  []Status
	wanted   bool   // it should be served
	stamp    string // of the files that were loaded
}

// slot is a version, which may have been unloaded to make room.
type slot struct {
	*Version
	evicted bool
	from    source
	folder  *folder
	found   found
	config  *Config
	files   int64 // bytes of files that came with a call, which stay in memory while the model has its name
}

// Status is a version's entry in the index.
type Status struct {
	Name    string
	Version string // "" for a model without any
	State   string // "READY" or "UNAVAILABLE"; "" where it was never loaded
	Reason  string
}

// OpenDir reads a folder of the system. Model files are mapped.
func OpenDir(ctx context.Context, dir string, o Options) (*Repository, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, fmt.Errorf("%s is no folder", dir)
	}
	return open(ctx, os.DirFS(dir), dir, o)
}

// Open reads a file system, such as an embed.FS. Models that do not load are told of by the index and the log.
func Open(ctx context.Context, fsys fs.FS, o Options) (*Repository, error) {
	return open(ctx, fsys, "", o)
}

func open(ctx context.Context, fsys fs.FS, dir string, o Options) (*Repository, error) {
	if o.Queue <= 0 {
		o.Queue = 512
	}
	if o.Runs <= 0 {
		o.Runs = runtime.GOMAXPROCS(0)
	}
	if o.Compile.Profile == carve.ProfileDefault {
		o.Compile.Threads, o.Compile.MaxSessions = cmp.Or(o.Compile.Threads, o.Runs), cmp.Or(o.Compile.MaxSessions, o.Runs)
	}
	if o.MemoryLimit > 0 && o.Compile.MaxArenaBytes == 0 {
		o.Compile.MaxArenaBytes = o.MemoryLimit // a run that needs more fits beside no model, nor alone
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	r := &Repository{o: o, fsys: fsys, dir: dir, models: map[string]*entry{}, seen: map[string]string{}, gate: gate{free: o.Runs, limit: math.MaxInt, crowded: o.Crowded}}
	r.publish()
	folders, err := r.scan()
	if err != nil {
		return nil, err
	}
	for _, name := range slices.Sorted(maps.Keys(folders)) {
		e := r.entry(name, true)
		if o.Explicit {
			continue
		}
		if err := r.reload(ctx, e, folders[name], source{fsys: fsys, dir: dir}, nil); err != nil && ctx.Err() != nil {
			_ = r.Close(ctx)
			return nil, ctx.Err()
		}
	}
	return r, nil
}

// publish makes the map of models what requests see. It is called with mu held, or before anybody else has r.
func (r *Repository) publish() {
	m := maps.Clone(r.models)
	r.all.Store(&m)
}

// entry returns a name's entry, a new one where there is none. A name lies in the root, or has come with a call.
func (r *Repository) entry(name string, lies bool) *entry {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := r.models[name]
	if e == nil {
		e = &entry{name: name, stats: map[int64]*Stats{}}
		e.current.Store(&snapshot{})
		r.models[name] = e
		r.publish()
	}
	e.lies = e.lies || lies
	return e
}

// reload loads what has changed of a model, aside, and puts it in the place of what was there. Where a version does not load,
// everything stays as it was, and the error says why.
func (r *Repository) reload(ctx context.Context, e *entry, f *folder, from source, override *Config) error {
	e.loading.Lock()
	defer e.loading.Unlock()
	if e.over {
		return errOver
	}
	next, err := r.prepare(ctx, e, f, from, override, e.current.Load())
	if err != nil {
		e.tried = f.all()
		e.replace(func(now *snapshot) *snapshot {
			return &snapshot{versions: now.versions, reasons: f.reasons(err), wanted: true, stamp: now.stamp}
		})
		r.o.Logger.ErrorContext(ctx, "a model does not load", "model", e.name, "error", err)
		return err
	}
	e.tried = ""
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		drop(next.versions, e.current.Load().versions)
		return fs.ErrClosed
	}
	e.replace(func(now *snapshot) *snapshot {
		for i, s := range next.versions { // what stays may have been unloaded to make room in the meantime
			if k := slices.IndexFunc(now.versions, func(x *slot) bool { return x.Version == s.Version }); k >= 0 {
				next.versions[i] = now.versions[k]
			}
		}
		return next
	})
	return nil
}

// replace puts a snapshot in the place of the current one, and releases the versions that it no longer has.
func (e *entry) replace(make func(now *snapshot) *snapshot) {
	e.change.Lock()
	now := e.current.Load()
	next := make(now)
	e.current.Store(next)
	e.change.Unlock()
	drop(now.versions, next.versions)
}

// reasons returns the entries of the index that say why a model does not load.
func (f *folder) reasons(err error) []Status {
	var out []Status
	for _, v := range f.versions {
		out = append(out, Status{f.name, strconv.FormatInt(v.number, 10), "UNAVAILABLE", err.Error()})
	}
	if len(out) == 0 {
		out = []Status{{Name: f.name, State: "UNAVAILABLE", Reason: err.Error()}}
	}
	return out
}

// drop releases the versions of list that are not in kept.
func drop(list, kept []*slot) {
	for _, s := range list {
		if !s.evicted && !slices.ContainsFunc(kept, func(k *slot) bool { return k.Version == s.Version && !k.evicted }) {
			s.Release()
		}
	}
}

// prepare loads the versions of a model that are not loaded as they lie there.
func (r *Repository) prepare(ctx context.Context, e *entry, f *folder, from source, override *Config, old *snapshot) (_ *snapshot, err error) {
	if f.fault != nil {
		return nil, f.fault
	}
	c := override
	if c == nil {
		if c, err = r.config(from, f); err != nil {
			return nil, err
		}
	}
	var there []int64
	for _, v := range f.versions {
		there = append(there, v.number)
	}
	wanted, err := c.versions(there)
	if err != nil {
		return nil, err
	}
	if len(wanted) == 0 {
		return nil, oip.Errorf(oip.NotFound, "model %q has no version", e.name)
	}
	next := &snapshot{wanted: true, stamp: f.all()}
	defer func() {
		if err != nil {
			drop(next.versions, old.versions)
		}
	}()
	for _, v := range f.versions {
		if !slices.Contains(wanted, v.number) {
			continue
		}
		i := slices.IndexFunc(old.versions, func(s *slot) bool { return s.Number == v.number })
		if i >= 0 && override == nil && old.versions[i].stamp == v.stamp+f.stamp {
			next.versions = append(next.versions, old.versions[i])
			continue
		}
		s := &slot{from: from, folder: f, found: v, config: c, files: from.bytes}
		if s.Version, err = r.loadRoom(ctx, e, s, s.files); err != nil {
			return nil, err
		}
		if i >= 0 && !samePorts(old.versions[i].Version, s.Version) {
			r.o.Logger.WarnContext(ctx, "a reloaded model has other inputs or outputs", "model", e.name, "version", v.number)
		}
		next.versions = append(next.versions, s)
	}
	return next, nil
}

func samePorts(a, b *Version) bool {
	same := func(a, b Port) bool { return a.Name == b.Name && a.DType == b.DType && slices.Equal(a.Shape, b.Shape) }
	return slices.EqualFunc(a.Inputs, b.Inputs, same) && slices.EqualFunc(a.Outputs, b.Outputs, same)
}

// config reads a model's configuration; an empty one where there is none.
func (r *Repository) config(from source, f *folder) (*Config, error) {
	if f.config == "" {
		return newConfig()
	}
	text, err := readSmall(from.fsys, f.dir, "config.pbtxt")
	if err != nil {
		return nil, err
	}
	return ParseConfig(text)
}

// loadRoom loads a version, and unloads others for it, and for so many bytes of files that came with it, where memory is limited.
func (r *Repository) loadRoom(ctx context.Context, e *entry, s *slot, files int64) (*Version, error) {
	if r.o.MemoryLimit > 0 {
		r.makeRoom(s.size() + files)
	}
	v, err := r.load(ctx, s.from, s.folder, s.found, s.config)
	if err != nil {
		return nil, err
	}
	v.used.Store(r.uses.Add(1))
	if e.stats[v.Number] == nil {
		e.stats[v.Number] = &Stats{}
	}
	v.Stats = e.stats[v.Number]
	if need := v.Bytes() + files; r.o.MemoryLimit > 0 && !r.makeRoom(need) {
		v.Release()
		return nil, oip.Errorf(oip.Unavailable, "model %q needs %d bytes; the limit of all models is %d, and none that is idle can make room", e.name, need, r.o.MemoryLimit)
	}
	r.o.Logger.InfoContext(ctx, "a model is loaded", "model", e.name, "version", v.Number, "seconds", v.LoadTime.Seconds(), "bytes", v.Bytes())
	return v, nil
}

// size guesses how much memory a version will need: what its file has.
func (s *slot) size() int64 {
	if info, err := fs.Stat(s.from.fsys, s.found.file); err == nil {
		return info.Size()
	}
	return 0
}

// Strained says that requests are turned down in front of the repository for there being too many, or will be soon. Of its own queues the
// repository knows that.
func (r *Repository) Strained() { r.gate.strained() }

// Acquire returns a version that is ready to run, the newest for "". Release it. A version that was unloaded to make room is
// loaded first, and so is one whose device is lost, for the backends that are left. Errors are NotFound, and Unavailable for models that are there and not loaded.
func (r *Repository) Acquire(ctx context.Context, name, version string) (*Version, error) {
	for range 16 { // a version may end between being found and being held
		s, e, err := r.slot(name, version)
		if err != nil {
			return nil, err
		}
		if !s.evicted && s.lost.Load() {
			if e.evict(s) {
				r.o.Logger.ErrorContext(ctx, "a device is lost: the model is compiled anew", "model", e.name, "version", s.Number)
			}
			continue
		}
		if !s.evicted {
			if s.retain() {
				return s.Version, nil
			}
			continue
		}
		if err := r.bringBack(ctx, e, s); err != nil {
			return nil, err
		}
	}
	return nil, oip.Errorf(oip.Unavailable, "model %q comes and goes: memory is too small for the models in use", name)
}

// Describe returns a version for its ports, configuration and numbers: it may not be run, and needs no Release.
func (r *Repository) Describe(name, version string) (*Version, error) {
	s, _, err := r.slot(name, version)
	if err != nil {
		return nil, err
	}
	return s.Version, nil
}

func (r *Repository) slot(name, version string) (*slot, *entry, error) {
	e := (*r.all.Load())[name]
	if e == nil {
		return nil, nil, oip.Errorf(oip.NotFound, "Request for unknown model: '%.200s' is not found", name)
	}
	now := e.current.Load()
	if len(now.versions) == 0 {
		reason := "it is not loaded"
		if len(now.reasons) > 0 {
			reason = now.reasons[0].Reason
		}
		return nil, nil, oip.Errorf(oip.Unavailable, "model %q is not ready: %s", name, reason)
	}
	if version == "" || version == "-1" {
		return now.versions[len(now.versions)-1], e, nil
	}
	n, err := strconv.ParseInt(version, 10, 64)
	if err != nil || n <= 0 {
		return nil, nil, oip.Errorf(oip.InvalidArgument, "version %.20q is no decimal integer", version)
	}
	for _, s := range now.versions {
		if s.Number == n {
			return s, e, nil
		}
	}
	return nil, nil, oip.Errorf(oip.NotFound, "Request for unknown model: '%s' version %d is not found", name, n)
}

// Versions returns the numbers of a model's loaded versions, as text.
func (r *Repository) Versions(name string) []string {
	e := (*r.all.Load())[name]
	if e == nil {
		return nil
	}
	var out []string
	for _, s := range e.current.Load().versions {
		out = append(out, s.Version.String())
	}
	return out
}

// All returns every loaded version, for statistics, in the order of names.
func (r *Repository) All() []*Version {
	all := *r.all.Load()
	var out []*Version
	for _, name := range slices.Sorted(maps.Keys(all)) {
		for _, s := range all[name].current.Load().versions {
			out = append(out, s.Version)
		}
	}
	return out
}

// Memory returns the bytes that each model which is in memory holds, by version.
func (r *Repository) Memory() map[*Version]int64 {
	out := map[*Version]int64{}
	for _, e := range *r.all.Load() {
		for _, s := range e.current.Load().versions {
			if !s.evicted && s.retain() {
				out[s.Version] = s.Bytes()
				s.unhold()
			}
		}
	}
	return out
}

// Index returns the state of all models that are known, and with files those that only lie in the root.
func (r *Repository) Index() []Status {
	all := *r.all.Load()
	var out []Status
	for _, name := range slices.Sorted(maps.Keys(all)) {
		now := all[name].current.Load()
		for _, s := range now.versions {
			out = append(out, Status{name, s.Version.String(), "READY", ""})
		}
		for _, x := range now.reasons {
			if !slices.ContainsFunc(now.versions, func(s *slot) bool { return s.Version.String() == x.Version }) {
				out = append(out, x)
			}
		}
		if len(now.versions)+len(now.reasons) == 0 {
			out = append(out, Status{Name: name})
		}
	}
	return out
}

// Ready reports whether every model that should be served is.
func (r *Repository) Ready() bool {
	for _, e := range *r.all.Load() {
		if now := e.current.Load(); now.wanted && len(now.versions) == 0 {
			return false
		}
	}
	return true
}

// Unload takes a model out. Requests under way end as they would have.
func (r *Repository) Unload(name string) error {
	e := (*r.all.Load())[name]
	if e == nil {
		return oip.Errorf(oip.NotFound, "Request for unknown model: '%.200s' is not found", name)
	}
	e.loading.Lock()
	defer e.loading.Unlock()
	e.replace(func(now *snapshot) *snapshot {
		next := &snapshot{stamp: now.stamp}
		for _, s := range now.versions {
			next.reasons = append(next.reasons, Status{name, s.Version.String(), "UNAVAILABLE", "unloaded"})
		}
		return next
	})
	r.o.Logger.Info("a model is unloaded", "model", name)
	r.spend(e)
	return nil
}

// Close unloads everything, and waits until the last request has ended, or ctx has.
func (r *Repository) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	var wait []chan struct{}
	for _, e := range *r.all.Load() {
		e.replace(func(now *snapshot) *snapshot {
			for _, s := range now.versions {
				if !s.evicted {
					wait = append(wait, s.freed)
				}
			}
			return &snapshot{}
		})
	}
	for _, c := range wait {
		select {
		case <-c:
			continue
		default: // a model that nobody uses is closed, whether ctx has ended or not
		}
		select {
		case <-c:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	r.apart.close()
	return nil
}

// all returns the stamps of everything that belongs to a model.
func (f *folder) all() string {
	var b strings.Builder
	b.WriteString(f.stamp)
	for _, v := range f.versions {
		fmt.Fprintf(&b, "\n%d %s", v.number, v.stamp)
	}
	return b.String()
}

package cli

import (
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/schollz/progressbar/v3"
	"golang.org/x/term"

	"github.com/carve-dev/carve"
)

// progress shows on stderr how far something long has come. Where stderr is no terminal it shows nothing.
type progress struct {
	mu  sync.Mutex
	bar *progressbar.ProgressBar
	max int
}

// terminal reports whether stderr is one.
func (a *app) terminal() bool {
	f, ok := a.stderr.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// progress returns a display for total units; more are not shown.
func (a *app) progress(what string, total int) *progress {
	p := &progress{max: total}
	if a.terminal() {
		p.bar = progressbar.NewOptions(total, progressbar.OptionSetWriter(a.stderr), progressbar.OptionSetDescription(what),
			progressbar.OptionShowCount(), progressbar.OptionThrottle(100*time.Millisecond), progressbar.OptionClearOnFinish(),
			progressbar.OptionSetWidth(30))
	}
	return p
}

// step counts one more unit.
func (p *progress) step() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Add(1) // a display that fails is no fault of the work
	}
}

// observe shows the compiler's progress, and that of a loop in a run.
func (p *progress) observe(x carve.Progress) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar == nil {
		return
	}
	if x.Pass == carve.RunPass && x.Total == 0 { // nobody knows how far it is
		p.bar.Describe(cell(fmt.Sprintf("%s: %s", x.Node, counted(x.Done, "iteration"))))
		return
	}
	p.bar.Describe(cell(strings.TrimSpace(x.Pass + " " + x.Node)))
	if x.Total > 0 && x.Total != p.max {
		p.max = x.Total
		p.bar.ChangeMax(x.Total)
	}
	_ = p.bar.Set(x.Done)
}

// clear takes the display away, so that a line can be written.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Clear()
	}
}

// end takes the display away for good.
func (p *progress) end() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.bar != nil {
		_ = p.bar.Finish()
		_ = p.bar.Clear()
		p.bar = nil
	}
}

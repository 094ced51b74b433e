package picture_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"
)

// browser is a page in a headless Chromium, driven by the DevTools protocol over a pair of pipes.
type browser struct {
	out     *os.File
	answers chan message
	session string
	id      int
	faults  []string // of the page: exceptions, and what it wrote to the console as an error
}

// message is one of the protocol, in either direction.
type message struct {
	ID      int             `json:"id,omitempty"`
	Session string          `json:"sessionId,omitempty"`
	Method  string          `json:"method,omitempty"`
	Params  json.RawMessage `json:"params,omitempty"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *struct {
		Message string `json:"message"`
	} `json:"error,omitempty"`
}

// running is the browser of all specs, nil until one needs it. end ends it.
var (
	running *browser
	end     func()
)

var _ = AfterSuite(func() {
	if end != nil {
		end()
	}
})

// browse opens a page. It skips the spec where no Chromium is installed.
func browse(page string, dark bool) *browser {
	GinkgoHelper()
	if running == nil {
		for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "google-chrome-stable"} {
			if program, err := exec.LookPath(name); err == nil && runtime.GOOS != "windows" {
				running = launch(program)
				break
			}
		}
	}
	if running == nil {
		Skip("no Chromium is installed here, which this spec opens the report in")
	}
	b := running
	b.faults = nil
	b.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": 1500, "height": 950, "deviceScaleFactor": 1, "mobile": false}, nil)
	scheme := map[bool]string{false: "light", true: "dark"}[dark]
	b.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	b.open(page)
	return b
}

// launch starts a browser with an empty page.
func launch(program string) *browser {
	GinkgoHelper()
	toBrowser, write, err := os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	read, fromBrowser, err := os.Pipe()
	Expect(err).NotTo(HaveOccurred())
	profile, err := os.MkdirTemp("", "carve-browser-*")
	Expect(err).NotTo(HaveOccurred())
	limited, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	cmd := exec.CommandContext(limited, program, "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars", "--no-first-run",
		"--remote-debugging-pipe", "--user-data-dir="+profile, "--window-size=1500,950", "about:blank")
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // 3 and 4, as the browser has them
	Expect(cmd.Start()).To(Succeed())
	end = func() {
		_ = write.Close() // it ends by itself then
		cancel()
		_ = cmd.Wait()
		_ = read.Close()
		Eventually(func() error { return os.RemoveAll(profile) }).Should(Succeed()) // its children end after it
	}
	Expect(toBrowser.Close()).To(Succeed())
	Expect(fromBrowser.Close()).To(Succeed())
	b := &browser{out: write, answers: make(chan message, 1000)}
	go func() {
		defer close(b.answers)
		for r := bufio.NewReader(read); ; {
			text, err := r.ReadBytes(0)
			if err != nil {
				return
			}
			var m message
			if json.Unmarshal(text[:len(text)-1], &m) == nil {
				b.answers <- m
			}
		}
	}()
	var target struct{ TargetID string }
	b.call("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	b.call("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	b.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log", "Network"} {
		b.call(domain+".enable", nil, nil)
	}
	return b
}

// open loads a page and waits until it is drawn.
func (b *browser) open(page string) {
	GinkgoHelper()
	b.call("Page.navigate", map[string]any{"url": "about:blank"}, nil)
	b.call("Page.navigate", map[string]any{"url": page}, nil)
	Eventually(func() bool {
		return b.eval(`document.readyState === 'complete' && performance.getEntriesByName('drawn').length > 0`) == true
	}).Should(BeTrue(), "the page is not drawn: %v", b.faults)
	b.frame()
}

// call does a command and waits for its result.
func (b *browser) call(method string, params, result any) {
	GinkgoHelper()
	b.id++
	raw, err := json.Marshal(params)
	Expect(err).NotTo(HaveOccurred())
	if params == nil {
		raw = nil
	}
	text, err := json.Marshal(message{ID: b.id, Session: b.session, Method: method, Params: raw})
	Expect(err).NotTo(HaveOccurred())
	_, err = b.out.Write(append(text, 0))
	Expect(err).NotTo(HaveOccurred())
	for m := range b.answers {
		b.note(m)
		if m.ID != b.id {
			continue
		}
		if m.Error != nil {
			Fail(method + ": " + m.Error.Message)
		}
		if result != nil {
			Expect(json.Unmarshal(m.Result, result)).To(Succeed())
		}
		return
	}
	Fail(method + ": the browser has ended")
}

// note keeps what went wrong in the page: exceptions, errors, and requests for anything but a file that was opened.
func (b *browser) note(m message) {
	switch m.Method {
	case "Runtime.exceptionThrown":
		b.faults = append(b.faults, string(m.Params))
	case "Log.entryAdded":
		var p struct{ Entry struct{ Level, Text string } }
		if json.Unmarshal(m.Params, &p) == nil && p.Entry.Level == "error" {
			b.faults = append(b.faults, p.Entry.Text)
		}
	case "Network.requestWillBeSent":
		var p struct {
			Request struct{ URL string }
			Type    string
		}
		if json.Unmarshal(m.Params, &p) == nil && p.Type != "Document" {
			b.faults = append(b.faults, "a request for "+p.Request.URL)
		}
	}
}

// eval returns the value of an expression in the page.
func (b *browser) eval(format string, args ...any) any {
	GinkgoHelper()
	var r struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	b.call("Runtime.evaluate", map[string]any{"expression": fmt.Sprintf(format, args...), "returnByValue": true, "awaitPromise": true}, &r)
	if r.ExceptionDetails != nil {
		Fail(fmt.Sprintf(format, args...) + ": " + r.ExceptionDetails.Text)
	}
	return r.Result.Value
}

// frame waits until the page has painted what has changed.
func (b *browser) frame() {
	GinkgoHelper()
	b.eval(`new Promise(r => requestAnimationFrame(() => requestAnimationFrame(() => r(1))))`)
}

// text returns what an element shows.
func (b *browser) text(selector string) string {
	GinkgoHelper()
	s, _ := b.eval(`document.querySelector(%q).innerText`, selector).(string)
	return s
}

// clickAt clicks at a point of the window.
func (b *browser) clickAt(x, y float64, times int) {
	GinkgoHelper()
	for n := 1; n <= times; n++ {
		for _, kind := range []string{"mouseMoved", "mousePressed", "mouseReleased"} {
			button := "left"
			if kind == "mouseMoved" {
				button = "none"
			}
			b.call("Input.dispatchMouseEvent", map[string]any{"type": kind, "x": x, "y": y, "button": button, "clickCount": n}, nil)
		}
	}
	b.frame()
}

// click clicks on the middle of an element.
func (b *browser) click(selector string) {
	GinkgoHelper()
	at, ok := b.eval(`(() => { const e = document.querySelector(%q); e.scrollIntoView({block: 'nearest'}); const r = e.getBoundingClientRect();
		return [r.left + Math.min(r.width / 2, 20), r.top + r.height / 2]; })()`, selector).([]any)
	Expect(ok).To(BeTrue(), "there is no %s", selector)
	b.clickAt(at[0].(float64), at[1].(float64), 1)
}

// key presses a key.
func (b *browser) key(name string) {
	GinkgoHelper()
	params := map[string]any{"type": "keyDown", "key": name}
	if len(name) == 1 {
		params["text"] = name
	}
	if name == "Enter" {
		params["windowsVirtualKeyCode"], params["text"] = 13, "\r"
	}
	b.call("Input.dispatchKeyEvent", params, nil)
	b.call("Input.dispatchKeyEvent", map[string]any{"type": "keyUp", "key": name}, nil)
	b.frame()
}

// write types text.
func (b *browser) write(text string) {
	GinkgoHelper()
	b.call("Input.insertText", map[string]any{"text": text}, nil)
	b.frame()
}

// shot keeps a screenshot in the folder of -screenshots.
func (b *browser) shot(name string) {
	GinkgoHelper()
	if *screenshots == "" {
		return
	}
	b.frame()
	var r struct{ Data string }
	b.call("Page.captureScreenshot", map[string]any{"format": "png"}, &r)
	png, err := base64.StdEncoding.DecodeString(r.Data)
	Expect(err).NotTo(HaveOccurred())
	Expect(os.WriteFile(filepath.Join(*screenshots, name+".png"), png, 0o644)).To(Succeed())
}

package picture_test

import (
	"encoding/json"
	"fmt"
	"time"

	. "github.com/onsi/ginkgo/v2"
	. "github.com/onsi/gomega"

	"github.com/carve-dev/carve"
)

// state is what the page's address remembers.
func (b *browser) state() string {
	GinkgoHelper()
	s, _ := b.eval(`location.hash`).(string)
	return s
}

// colors returns how many different colours a canvas shows.
func (b *browser) colors(canvas string) float64 {
	GinkgoHelper()
	n, _ := b.eval(`(() => { const c = document.querySelector(%q), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, set = new Set();
		for (let i = 0; i < d.length; i += 4) set.add(d[i] << 16 | d[i + 1] << 8 | d[i + 2]); return set.size; })()`, canvas).(float64)
	return n
}

var _ = Describe("the page in a browser", func() {
	It("links all views", func(ctx SpecContext) {
		p := example(ctx)
		d := document(p)
		b := browse(save(html(p)), false)
		Expect(b.eval(`document.title`)).To(Equal("branches.onnx · carve"))
		Expect(b.eval(`document.documentElement.dataset.theme`)).To(Equal("light"))
		Expect(b.text("#legend")).To(And(ContainSubstring("cpu"), ContainSubstring("reference"), ContainSubstring("host scheduler")))
		Expect(b.colors("#graph")).To(BeNumerically(">", 10))
		Expect(b.text("#pane")).To(ContainSubstring("Nothing is selected"))
		b.shot("example-graph")

		By("searching")
		b.key("/")
		b.write("pool")
		Expect(b.text("#hits")).To(And(ContainSubstring("MaxPool"), ContainSubstring("1 hit")))
		b.key("Enter")
		pool, _ := nodeOf(d, "pool")
		Expect(b.state()).To(ContainSubstring(fmt.Sprintf("node=%d", pool)))
		Expect(b.text("#pane")).To(And(ContainSubstring("MaxPool"), ContainSubstring("the user pinned it to reference"), ContainSubstring("chosen")))
		b.shot("example-pool")

		By("following a link to what makes the operand")
		b.click("#pane table:not(.of) .link")
		conv, _ := nodeOf(d, "conv")
		Expect(b.state()).To(ContainSubstring(fmt.Sprintf("node=%d", conv)))
		Expect(b.text("#pane")).To(And(ContainSubstring("fused by the property"), ContainSubstring("conv-tail"), ContainSubstring("2 nodes of the model")))

		By("clicking on it in the graph: the selected node is near the middle of the canvas")
		b.key("Escape")
		Expect(b.state()).NotTo(ContainSubstring("node="))
		at := b.eval(`(() => { const r = document.querySelector('#graph').getBoundingClientRect(); return [r.left + (r.width - 120) / 2, r.top + r.height / 2]; })()`).([]any)
		b.clickAt(at[0].(float64), at[1].(float64), 1)
		Expect(b.state()).To(ContainSubstring(fmt.Sprintf("node=%d", conv)))

		By("going to its group, folding that and unfolding it")
		b.eval(`[...document.querySelectorAll('#pane .link')].find(e => e.textContent.startsWith('group')).click()`)
		Expect(b.text("#pane h2")).To(HavePrefix("group"))
		b.eval(`document.querySelector('#graph').focus()`)
		before := b.colors("#graph")
		b.key("Enter")
		Expect(b.text("#pane button")).NotTo(BeEmpty())
		Expect(b.eval(`[...document.querySelectorAll('#pane button')].some(e => e.textContent === 'Unfold')`)).To(BeTrue())
		b.key("Enter")
		Expect(b.eval(`[...document.querySelectorAll('#pane button')].some(e => e.textContent === 'Fold')`)).To(BeTrue())
		Expect(b.colors("#graph")).To(BeNumerically("~", before, before/2))

		By("going from a node to its buffer and its bar in the timeline, and back")
		b.open(b.eval(`location.href.split('#')[0]`).(string) + fmt.Sprintf("#view=graph&node=%d", conv))
		b.eval(`[...document.querySelectorAll('#pane h3')].find(e => e.textContent === 'memory').nextSibling.querySelector('.link').click()`)
		b.frame()
		Expect(b.state()).To(And(ContainSubstring("view=memory"), ContainSubstring("buffer=")))
		Expect(b.text("#pane")).To(ContainSubstring("alive"))
		b.shot("example-memory")
		b.eval(`[...document.querySelectorAll('#pane h3')].find(e => e.textContent === 'measured run').nextSibling.querySelector('.link').click()`)
		b.frame()
		Expect(b.state()).To(And(ContainSubstring("view=timeline"), ContainSubstring("span=")))
		Expect(b.text("#range")).To(ContainSubstring("in view"))
		b.shot("example-timeline")
		b.click("#pane .link")
		Expect(b.state()).To(And(ContainSubstring("view=graph"), ContainSubstring(fmt.Sprintf("node=%d", conv))))

		By("listing nodes, filtered and sorted")
		b.click("#tab-nodes")
		Expect(b.text("#count")).To(Equal("12 rows"))
		b.click("#search")
		b.write("pinned")
		Expect(b.text("#count")).To(Equal("1 of 12 rows"))
		Expect(b.text("#table")).To(ContainSubstring("MaxPool"))
		b.key("Escape")
		b.shot("example-nodes")

		By("changing light and dark")
		b.click("#theme")
		Expect(b.eval(`document.documentElement.dataset.theme`)).To(Equal("dark"))
		Expect(b.faults).To(BeEmpty())
	})

	It("goes through everything by keys", func(ctx SpecContext) {
		p := example(ctx)
		d := document(p)
		b := browse(save(html(p)), false)
		b.eval(`document.querySelector('#graph').focus()`)
		seen := map[string]bool{}
		for range d.Nodes {
			b.key("n")
			seen[b.state()] = true
		}
		Expect(seen).To(HaveLen(len(d.Nodes)), "all are unfolded")
		b.key("p")
		Expect(seen).To(HaveKey(b.state()))
		for i, view := range []string{"graph", "memory", "timeline", "nodes"} {
			b.key(fmt.Sprint(i + 1))
			Expect(b.state()).To(ContainSubstring("view=" + view))
			Expect(b.eval(`document.querySelector('#view-%s').hidden`, view)).To(BeFalse())
		}
		Expect(b.faults).To(BeEmpty())
	})

	It("leaves out what an address names that there is not", func(ctx SpecContext) {
		b := browse(save(html(example(ctx)))+"#view=constructor&node=999999&arena=7&buffer=-1&span=x", false)
		Expect(b.state()).To(Equal("#view=graph"))
		Expect(b.faults).To(BeEmpty())
	})

	It("shows a model without nodes, and one that nobody runs", func(ctx SpecContext) {
		for _, text := range []string{
			"graph {\n  opset 17\n  input %x: f32[2]\n  output %x\n}",
			"graph {\n  opset 17\n  const %a = f32[1]{1}\n  %y = Neg(%a) \"n\"\n  output %y\n}",
		} {
			b := browse(save(html(pictureOf(ctx, model(text), nil, nil))), false)
			for _, view := range []string{"memory", "timeline", "nodes", "graph"} {
				b.click("#tab-" + view)
			}
			b.eval(`document.querySelector('#graph').focus()`)
			b.key("n")
			b.key("0")
			Expect(b.faults).To(BeEmpty())
			Expect(b.text("#pane")).NotTo(BeEmpty())
		}
	})

	It("has texts that stand out from what is behind them", func(ctx SpecContext) {
		for _, dark := range []bool{false, true} {
			b := browse(save(html(example(ctx))), dark)
			Expect(b.eval(`document.documentElement.dataset.theme`)).To(Equal(map[bool]string{false: "light", true: "dark"}[dark]), "as the system has it")
			worst := b.eval(`(() => {
				const parse = s => s.match(/[\d.]+/g).slice(0, 4).map(Number);
				const light = c => { const [r, g, b] = c.map(x => { x /= 255; return x <= 0.03928 ? x / 12.92 : ((x + 0.055) / 1.055) ** 2.4; }); return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
				const behind = e => { for (; e; e = e.parentElement) { const c = parse(getComputedStyle(e).backgroundColor); if (c.length < 4 || c[3] === 1) return c.slice(0, 3); } return [255, 255, 255]; };
				let worst = 99;
				for (const e of document.querySelectorAll('body *')) {
					if (![...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim()) || !e.getClientRects().length) continue;
					const a = light(parse(getComputedStyle(e).color).slice(0, 3)), b = light(behind(e));
					worst = Math.min(worst, (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05));
				}
				return worst;
			})()`)
			Expect(worst).To(BeNumerically(">=", 4.5), "WCAG 2.1, 1.4.3; dark: %v", dark)
		}
	})

	It("draws 10,000 nodes within two seconds, and stays quick", Label("slow"), func(ctx SpecContext) {
		p := pictureOf(ctx, carve.FromGraph(network(2, 10_000)), nil, nil)
		began := time.Now()
		page := html(p)
		fmt.Fprintf(GinkgoWriter, "%d bytes, laid out in %v\n", len(page), time.Since(began))
		b := browse(save(page), false)
		address := b.eval(`location.href`).(string)
		paint, drawn := 1e9, 1e9
		for range 6 { // others use the machine too
			b.open(address)
			paint = min(paint, b.eval(`performance.getEntriesByName('first-contentful-paint')[0].startTime`).(float64))
			drawn = min(drawn, b.eval(`performance.getEntriesByName('drawn')[0].startTime`).(float64))
		}
		fmt.Fprintf(GinkgoWriter, "first paint %.0f ms, all drawn %.0f ms\n", paint, drawn)
		Expect(paint).To(BeNumerically("<", 2000))
		Expect(drawn).To(BeNumerically("<", 2000))
		var shown int
		Expect(json.Unmarshal(fmt.Append(nil, b.eval(`JSON.parse(document.getElementById('data').textContent).nodes.filter(n => n.kind === 'op').length`)), &shown)).To(Succeed())
		Expect(shown).To(BeNumerically(">=", 9_990))

		By("moving about: a frame of all, and one of a part")
		b.eval(`document.querySelector('#graph').focus()`)
		frames := func(key string) float64 {
			best := 1e9
			for range 6 {
				b.eval(`window.began = performance.now()`)
				b.key(key)
				best = min(best, b.eval(`performance.now() - window.began`).(float64))
			}
			return best
		}
		far := frames("0")
		near := frames("n")
		fmt.Fprintf(GinkgoWriter, "a frame of all %.0f ms, of a part %.0f ms\n", far, near)
		Expect(far).To(BeNumerically("<", 1000))
		Expect(near).To(BeNumerically("<", 400))
		b.shot("network-part")
		b.click("#fit")
		b.shot("network")

		By("searching")
		b.click("#search")
		b.eval(`window.began = performance.now()`)
		b.write("product9876")
		Expect(b.text("#hits")).To(ContainSubstring("1 hit"))
		fmt.Fprintf(GinkgoWriter, "a search %.0f ms\n", b.eval(`performance.now() - window.began`))
		Expect(b.eval(`performance.now() - window.began`)).To(BeNumerically("<", 1000))
		b.key("Enter")
		Expect(b.text("#pane")).To(ContainSubstring("/block98/product9876"))
		Expect(b.faults).To(BeEmpty())
	})
})

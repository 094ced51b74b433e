package main

import (
	"fmt"
	"strings"
)

// parts runs the named parts.
func (b *bench) parts(names string, tune int) error {
	for _, n := range strings.Split(names, ",") {
		switch n {
		case "ceilings":
			if err := b.ceilings(); err != nil {
				return err
			}
		case "products":
			kinds := productKinds()
			b.products(kinds[:1], squares(), tune)
			b.products(kinds[:1], transformers(), tune)
			b.products(kinds[1:], append(squares(), transformers()...), tune)
		case "rows":
			b.tasks("element by element, and row by row", b.rowTasks())
		case "convolutions":
			b.tasks("convolutions, NHWC", b.convTasks())
		case "attention":
			b.tasks("attention", b.attentionTasks())
		default:
			return fmt.Errorf("no part %q", n)
		}
	}
	return nil
}

func squares() [][3]int {
	var list [][3]int
	for n := 1024; n <= 8192; n *= 2 {
		list = append(list, [3]int{n, n, n})
	}
	return list
}

// transformers are the products of a block of BERT, of hidden size 768, for one and for four sequences of 128.
func transformers() [][3]int {
	return [][3]int{{128, 768, 768}, {128, 3072, 768}, {128, 768, 3072}, {512, 768, 768}, {512, 2304, 768}, {512, 3072, 768}, {512, 768, 3072}}
}

package render

import "fmt"

// nameTables gives tables that would have the same name different ones: each is
// a region of the page that a reader without eyes is told by name.
func (d *Deck) nameTables() {
	used := map[string]int{}
	name := func(t *Table, more string) {
		if t == nil {
			return
		}
		if used[t.Caption] > 0 && more != "" {
			t.Caption += ", " + more
		}
		if used[t.Caption]++; used[t.Caption] > 1 {
			t.Caption += fmt.Sprintf(" (%d)", used[t.Caption])
		}
	}
	name(d.Families, "")
	name(d.Worst, "")
	for _, s := range d.Sections {
		for _, sh := range s.Shapes {
			for _, f := range sh.Figures {
				name(f.Table, sh.Title)
			}
		}
		for _, t := range s.Tables {
			name(t, s.Title)
		}
		for _, c := range s.Cells {
			for _, t := range c.Tables {
				name(t, c.Key)
			}
		}
	}
}

package render

import (
	"bufio"
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"cvs/collect/metric"
	"cvs/templates"
	"cvs/warehouse"
)

// newestFirst orders runs by start; those without one come last.
func newestFirst(entries []Entry) []Entry {
	out := slices.Clone(entries)
	slices.SortStableFunc(out, func(x, y Entry) int {
		switch {
		case x.Started == nil && y.Started == nil:
			return cmp.Compare(y.RunID, x.RunID)
		case x.Started == nil:
			return 1
		case y.Started == nil:
			return -1
		}
		return cmp.Or(y.Started.Compare(*x.Started), cmp.Compare(y.RunID, x.RunID))
	})
	return out
}

// A site is a page around the decks.
type site struct {
	Title, Eyebrow, Heading string
	Sub                     []string
	Stale                   string // RFC 3339 time of the newest run, "" without one
	StaleText               string
	Problems                []string
	Sections                []*Section
	Footer                  []string
}

// WriteIndex prints the page that leads to all published runs. problems are
// folders that could not be read, in words.
func WriteIndex(w io.Writer, entries []Entry, problems []string, o Options) error {
	entries = newestFirst(entries)
	s := &site{Title: "Published runs · cvs", Eyebrow: "cvs", Heading: "Published runs", Problems: problems, Footer: siteFooter(o)}
	configs := byConfiguration(entries)
	s.Sub = []string{plural(len(entries), "run"), plural(len(configs), "configuration")}
	s.stale(entries)
	per := &Section{ID: "configurations", Title: "Configurations", Count: strconv.Itoa(len(configs)),
		Intro: "The newest run of each configuration, and the best output throughput of its runs from the oldest to the newest. Simulated runs have configurations of their own."}
	t := &Table{ID: "configuration-table", Caption: "Configurations", Tall: true, Tools: true, Head: []Column{{Text: "Newest"}, {Text: "Model", Filter: true}, {Text: "GPU", Filter: true}, {Text: "Framework", Filter: true},
		{Text: "Setup"}, {Text: "Newest run"}, {Text: "Peak output", Unit: "tok/s", Class: "n"}, {Text: "Over time", Class: "barcell"}, changeColumn, {Text: "Runs", Class: "n"}, {Text: "History"}}}
	for _, c := range configs {
		e := c[0]
		m := e.mark()
		t.Rows = append(t.Rows, Row{Mark: m, Cells: []Cell{{Mark: &m}, {Text: orDash(text(e.Model))}, {Text: orDash(text(e.GPU))}, {Text: orDash(text(e.Driver))},
			{Text: e.setup(), Class: "nw"}, e.deckLink(""), peakCell(e.Peak), {Class: "barcell", Spark: spark(peaks(c))}, e.changeCell(), {Text: strconv.Itoa(len(c)), Class: "n"}, {Text: "Show", Page: "history/" + e.HistoryName()}}})
	}
	per.Tables = []*Table{t}
	all := &Section{ID: "runs", Title: "All runs", Count: strconv.Itoa(len(entries)), Intro: "Newest first. A name leads to the run's deck."}
	all.Tables = []*Table{runTable(entries, "", true)}
	if len(entries) == 0 {
		per.Tables, all.Tables = nil, nil
		per.Empty, all.Empty = "Nothing is published.", "Nothing is published."
	}
	s.Sections = []*Section{per, all}
	return s.write(w, o, "")
}

// WriteHistory prints the page of one configuration; entries are its runs.
func WriteHistory(w io.Writer, entries []Entry, o Options) error {
	entries = newestFirst(entries)
	e := entries[0]
	s := &site{Title: "History · " + text(e.Model) + " · cvs", Eyebrow: "History of a configuration", Heading: orDash(text(e.Model)), Footer: siteFooter(o),
		Sub: slices.DeleteFunc([]string{text(e.GPU), text(e.Driver), e.setup(), plural(len(entries), "run")}, func(s string) bool { return s == "" })}
	s.stale(entries)
	type series struct {
		name    string
		mark    Mark
		folder  string
		values  []*float64 // oldest first, one a run
		newest  *float64
		before  *float64
		carried string
	}
	var order []*series
	by := map[string]*series{}
	for i, run := range entries {
		for _, c := range run.Cells {
			x := by[c.Key]
			if x == nil {
				x = &series{name: text(c.Name), mark: mark(warehouse.State(c.State)), folder: run.Folder, values: make([]*float64, len(entries))}
				if i > 0 {
					x.carried = "not in the newest run"
				}
				by[c.Key] = x
				order = append(order, x)
			}
			x.values[len(entries)-1-i] = c.Output
			switch i {
			case 0:
				x.newest = c.Output
			case 1:
				x.before = c.Output
			}
		}
	}
	cells := &Section{ID: "cells", Title: "Cells over time", Count: strconv.Itoa(len(order)),
		Intro: "Output throughput of each cell, run by run; a gap is a run without a value. This is what was measured and not a judgement: whether a change is more than noise is said by the comparison in a run's deck."}
	t := &Table{ID: "cell-table", Caption: "Cells over time", Tall: true, Tools: true, Head: []Column{{Text: "Cell"}, {Text: "Newest"}, {Text: "Output before", Unit: "tok/s", Class: "n"}, {Text: "Output newest", Unit: "tok/s", Class: "n"}, {Text: "Over time", Class: "barcell"}}}
	for _, x := range order {
		m := x.mark
		state := Cell{Mark: &m}
		if x.carried != "" {
			m = Mark{}
			state = Cell{Text: x.carried, Class: "dim"}
		}
		t.Rows = append(t.Rows, Row{Mark: m, Cells: []Cell{{Text: x.name}, state, peakCell(x.before), peakCell(x.newest), {Class: "barcell", Spark: spark(x.values)}}})
	}
	cells.Tables = []*Table{t}
	runs := &Section{ID: "runs", Title: "Runs", Count: strconv.Itoa(len(entries)), Tables: []*Table{runTable(entries, "../", false)}}
	s.Sections = []*Section{cells, runs, {ID: "index", Title: "Elsewhere", Links: []Link{{"All published runs", "../index.html"}}}}
	return s.write(w, o, "../")
}

func byConfiguration(newest []Entry) [][]Entry {
	var order [][]Entry
	at := map[string]int{}
	for _, e := range newest {
		k := e.Configuration()
		i, ok := at[k]
		if !ok {
			i = len(order)
			at[k] = i
			order = append(order, nil)
		}
		order[i] = append(order[i], e)
	}
	return order
}

// ByConfiguration groups runs that share a configuration, the newest first in
// each group and the group of the newest run first.
func ByConfiguration(entries []Entry) [][]Entry { return byConfiguration(newestFirst(entries)) }

func (e Entry) setup() string {
	out := fmt.Sprintf("TP %d · PP %d", e.TP, e.PP)
	if e.TP == 0 {
		out = "setup not stated"
	}
	if e.DP > 1 {
		out += " · DP " + strconv.Itoa(e.DP)
	}
	if e.NNodes > 1 {
		out += " · " + plural(e.NNodes, "node")
	}
	if e.Precision != "" {
		out += " · " + text(e.Precision)
	}
	if e.Simulated {
		out += " · SIMULATED"
	}
	return out
}

func (e Entry) deckLink(up string) Cell {
	name := text(e.RunID)
	if e.Started != nil {
		name = e.Started.UTC().Format("2006-01-02 15:04")
	}
	return Cell{Text: name, Class: "nw", Page: up + "runs/" + e.Folder + "/" + DeckName, Title: text(e.RunID), Raw: text(e.RunID), HasRaw: true}
}

// DeckName and SidecarName are the names of a run's pages wherever they are
// written, as users of the older suite know them.
const (
	DeckName    = "atom_run_deck.html"
	SidecarName = "atom_run_deck.json"
)

func runTable(entries []Entry, up string, identity bool) *Table {
	t := &Table{ID: "run-table", Caption: "Runs", Tall: true, Tools: true, Head: []Column{{Text: "Verdict"}, {Text: "Run"}}}
	if identity {
		t.Head = append(t.Head, Column{Text: "Model", Filter: true}, Column{Text: "GPU", Filter: true}, Column{Text: "Framework", Filter: true}, Column{Text: "Setup"})
	}
	t.Head = append(t.Head, Column{Text: "Cells", Title: "measured of planned"}, Column{Text: "Gates failed", Class: "n"}, Column{Text: "Peak output", Unit: "tok/s", Class: "n"}, changeColumn, Column{Text: "Image"}, Column{Text: "Data"})
	for _, e := range entries {
		m := e.mark()
		cells := []Cell{{Mark: &m}, e.deckLink(up)}
		if e.Incomplete && m.Class != "incomplete" {
			cells[0].Small = "incomplete"
		}
		if identity {
			cells = append(cells, Cell{Text: orDash(text(e.Model))}, Cell{Text: orDash(text(e.GPU))}, Cell{Text: orDash(text(e.Driver))}, Cell{Text: e.setup(), Class: "nw"})
		}
		failed := Cell{Text: fmt.Sprintf("%d of %d", e.Failed, e.Evaluated), Class: "n", Raw: strconv.Itoa(e.Failed), HasRaw: true}
		if e.Evaluated == 0 {
			failed = Cell{Text: "none judged", Class: "n dim", HasRaw: true}
		}
		cells = append(cells, e.measured(), failed, peakCell(e.Peak), e.changeCell(), Cell{Text: orDash(text(e.Image)), Class: "id"},
			Cell{Text: "JSON", Page: up + "runs/" + e.Folder + "/" + SidecarName})
		t.Rows = append(t.Rows, Row{Mark: m, Cells: cells})
	}
	return t
}

// measured are the cells with a result, of those that were planned.
func (e Entry) measured() Cell {
	c := Cell{Text: fmt.Sprintf("%d of %d", e.Measured, e.Expected), Class: "nw"}
	if e.Expected == 0 {
		c.Text, c.Title = strconv.Itoa(e.Measured), "nothing was planned: made from loose results"
	}
	return c
}

func peakCell(v *float64) Cell {
	if v == nil {
		return Cell{Text: "—", Class: "n dim", HasRaw: true}
	}
	return Cell{Text: rounded(metric.Headline, *v), Class: "n", Title: exact(*v), Raw: exact(*v), HasRaw: true}
}

var changeColumn = Column{Text: "Change", Title: "output throughput against the run before, + is better: geometric mean of the cells and its 95 % interval", Class: "n"}

func (e Entry) changeCell() Cell {
	if e.Change == nil || !finite(*e.Change) {
		return Cell{Text: "not compared", Class: "n dim", HasRaw: true}
	}
	c := Cell{Text: percent(*e.Change), Class: "n", Title: exact(*e.Change), Raw: exact(*e.Change), HasRaw: true}
	if e.ChangeLow != nil && e.ChangeHigh != nil && finite(*e.ChangeLow) && finite(*e.ChangeHigh) {
		c.Small = strings.ReplaceAll(percent(*e.ChangeLow)+" … "+percent(*e.ChangeHigh), " ", "\u00a0")
	}
	return c
}

func peaks(newest []Entry) []*float64 {
	var out []*float64
	for _, e := range slices.Backward(newest) {
		out = append(out, e.Peak)
	}
	return out
}

// A Spark is a small line from the oldest value to the newest, from zero to the
// highest of them, in a box of 100 by 24; a value that is missing is a gap.
type Spark struct{ Line, Dot, Label string }

func spark(values []*float64) *Spark {
	top, n := 0.0, 0
	for _, v := range values {
		if v != nil {
			top, n = math.Max(top, *v), n+1
		}
	}
	if n == 0 || top <= 0 {
		return nil
	}
	var b strings.Builder
	s := &Spark{}
	pen := "M"
	for i, v := range values {
		if v == nil {
			pen = "M"
			continue
		}
		x, y := 97.0, 22-20*(*v)/top
		if len(values) > 1 {
			x = 3 + 94*float64(i)/float64(len(values)-1)
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", pen, x, y)
		pen = "L"
		// A zero-length line with round ends is a dot in any size.
		s.Dot = fmt.Sprintf("M%.1f %.1fh0", x, y)
		s.Label = rounded(metric.Headline, *v)
	}
	s.Line = b.String()
	s.Label = fmt.Sprintf("%s of %s, newest %s tok/s", plural(n, "value"), plural(len(values), "run"), s.Label)
	return s
}

func (s *site) stale(newest []Entry) {
	if len(newest) == 0 || newest[0].Started == nil {
		return
	}
	s.Stale = newest[0].Started.UTC().Format(time.RFC3339)
	s.StaleText = "The newest run started " + instant(*newest[0].Started) + "."
}

func siteFooter(o Options) []string {
	made := "Made by cvs " + orDash(text(o.ToolVersion))
	if !o.Now.IsZero() {
		made += " on " + instant(o.Now)
	}
	return []string{made + ". Every verdict was decided when its run was loaded; this page only lists it."}
}

// write prints the page, which stands in the folder that up leads out of.
func (s *site) write(w io.Writer, o Options, up string) error {
	files := templates.Deck()
	t, err := pageTemplate(files)
	if err != nil {
		return err
	}
	a, err := assetsOf(files)
	if err != nil {
		return err
	}
	h := a.inPage(false, s.Title)
	if o.Shared {
		h = a.beside(up, false, s.Title)
	}
	buf := bufio.NewWriter(w)
	err = t.ExecuteTemplate(buf, "site", struct {
		*site
		head
		ToolVersion string
	}{s, h, o.ToolVersion})
	if err != nil {
		return fmt.Errorf("printing the page: %w", err)
	}
	return buf.Flush()
}

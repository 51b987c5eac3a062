// Package render turns rows of the warehouse's views into pages: the run deck
// and its JSON sidecar.
//
// It computes no verdict and no statistic: what a page says was decided by a
// view, and this package only selects, orders and words it. It must not know
// SQL, hosts or run directories.
package render

import (
	"html/template"
	"iter"
)

// A Deck is a page ready to print: text and chart options, with no number left
// to format. Every string in it may come from outside and is escaped when
// printed; control and bidirectional characters were made visible by [Build].
type Deck struct {
	Title       string // of the browser's tab
	Eyebrow     string
	Heading     string
	Sub         []string
	ToolVersion string
	Verdict     Verdict
	Tallies     []Tally
	Facts       []Field // comparison and sign-off, in words
	Families    *Table  // one line per gate family; nil without gates
	Worst       *Table
	Card        []Field // who, what, where
	CardTitle   string  // "" for "Run"
	Sections    []*Section
	Footer      []string
	Large       bool        // far sections are laid out when they come near
	shared      bool        // style and scripts are files two folders up
	data        template.JS // of the charts and of a large deck's cells
}

// A Mark is how something went: a CSS class from a closed set and the word that
// stands beside it, so that colour is never the only sign.
type Mark struct {
	Class string
	Word  string
	Title string // reason, shown on hover and focus
}

// A Verdict is the head of the first screen.
type Verdict struct {
	State   Mark
	Class   string // of the frame; incomplete is never pass
	Badges  []Mark // incomplete, simulated, record-only
	Lead    string
	Reasons []Reason
}

// A Reason is one sentence and where its evidence is.
type Reason struct {
	Text  string
	Title string // the same with all its digits, "" if none are missing
	Href  string // id on this page, or ""
}

// A Tally is a total and its parts, which add up to it.
type Tally struct {
	Label, Total string
	Bar          *Bar
	Parts        []Part
}

// A Part is one share of a [Tally].
type Part struct {
	Mark Mark
	N    int
}

// A Field is a label and a value.
type Field struct {
	Label, Value string
	Note         string // second line
	Title        string
	Href         string // id on this page
	Mono         bool
}

// A Section is one titled block. Empty says in words why there is nothing to
// see; Problem is an error that left the rest of the deck standing.
type Section struct {
	ID, Title string
	Count     string // beside the title in the navigation
	Mark      *Mark
	Intro     string
	Problem   string
	Empty     string
	Shapes    []Shape
	Folded    bool // script makes the shapes, closed but for the first
	Timeline  *Timeline
	Tables    []*Table
	Cells     []*CellCard
	Lazy      bool    // the cells' gates and metrics are in the page's data
	Logs      []Field // ends of logs
	Links     []Link
	Text      string        // preformatted words of people
	Words     template.HTML // the same, where they are Markdown
	Notes     []string      // what the reader should know before trusting the numbers
	Queries   []string      // SQL that answers the same question
}

// A Link leads to another page of ours.
type Link struct{ Text, Page string }

// A Shape groups the charts of one input and output length.
type Shape struct {
	Title   string
	Figures []*Figure
	cells   []*cell // in a large deck, whose script makes its shapes from the page's data
}

// A CellCard is one cell with all its gates and metrics.
type CellCard struct {
	ID, Name, Key string
	Mark          Mark
	Headline      string
	Gates         string // all of them in one line
	Open          bool
	Lazy          bool // its gates and metrics are in the page's data
	Reasons       []string
	Tables        []*Table
	Commands      []Field
}

// A Table is text in rows.
type Table struct {
	ID      string // "" for none
	Title   string // heading above it inside a cell card
	Caption string
	Empty   string // words in place of an empty table
	Tall    bool   // scrolls under its own sticky head
	Pin     bool   // the first column stays when scrolled sideways
	Tools   bool   // script adds sorting, filters and CSV
	Head    []Column
	Rows    []Row
	// Each makes the rows one by one, twice, where they are too many to be held; it
	// stands in place of Rows.
	Each iter.Seq[Row]
}

// fillRows makes a row of each item, or has them made when the table is printed.
func fillRows[T any](t *Table, late bool, items []T, row func(T) Row) {
	if late {
		t.Each = func(yield func(Row) bool) {
			for _, x := range items {
				if !yield(row(x)) {
					return
				}
			}
		}
		return
	}
	for _, x := range items {
		t.Rows = append(t.Rows, row(x))
	}
}

// rows are all rows of a table, however they are kept.
func (t *Table) rows() iter.Seq[*Row] {
	return func(yield func(*Row) bool) {
		if t.Each != nil {
			for r := range t.Each {
				if !yield(&r) {
					return
				}
			}
			return
		}
		for i := range t.Rows {
			if !yield(&t.Rows[i]) {
				return
			}
		}
	}
}

// A Column is the head of a column. Class "n" aligns numbers.
type Column struct {
	Text, Unit, Title, Class string
	// Metric is where the page's data holds the exact values of the column: the
	// number of a metric, or "key" for the cell's key.
	Metric string
	Filter bool // script adds a choice of the column's values
}

// A Row is one line of a [Table].
type Row struct {
	ID    string
	Mark  Mark
	Cells []Cell
}

// A Cell is one field of a [Row]. Raw is the exact value for sorting and CSV
// where it differs from Text.
type Cell struct {
	Text   string
	Small  string
	Title  string
	Class  string
	Href   string // id on this page
	Page   string // another page of ours, relative; its parts are safe names
	Mark   *Mark
	Bar    *Bar
	Spark  *Spark
	Raw    string
	HasRaw bool
	Sort   string // number to sort by where Raw is not one
}

// A Bar is a drawing 100 wide.
type Bar struct {
	Parts  []BarPart
	Middle bool // a line at 50
}

// A BarPart is one filled piece of a [Bar].
type BarPart struct {
	Class string
	X, W  string
}

// page is what the template prints: the deck and our own embedded assets. Style,
// script, library and data are the only values that are trusted, because their
// bytes ship with the program and their hashes are what the policy allows.
type page struct {
	Deck *Deck
	head
	Data template.JS // JSON, escaped by its own writer
}

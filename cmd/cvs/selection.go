package main

import (
	"fmt"
	"strings"

	"cvs/collect/plan"
)

// A selection is a -k expression as users of the older suite know it: words
// joined by and, or, not and parentheses; a word matches an id that contains it
// in any case.
type selection struct {
	text  string
	match func(id string) bool
}

// parseSelection reads an expression; "" selects everything.
func parseSelection(s string) (*selection, error) {
	if strings.TrimSpace(s) == "" {
		return &selection{match: func(string) bool { return true }}, nil
	}
	p := &selParser{toks: selTokens(s)}
	m, err := p.or()
	if err == nil && len(p.toks) > 0 {
		err = fmt.Errorf("unexpected %q", p.toks[0])
	}
	if err != nil {
		return nil, badInput("-k %q: %v; want words joined by and, or, not", s, err)
	}
	return &selection{text: s, match: m}, nil
}

func selTokens(s string) []string {
	s = strings.NewReplacer("(", " ( ", ")", " ) ").Replace(s)
	return strings.Fields(s)
}

type selParser struct {
	toks  []string
	depth int
}

func (p *selParser) peek() string {
	if len(p.toks) == 0 {
		return ""
	}
	return p.toks[0]
}

func (p *selParser) next() string {
	t := p.peek()
	if len(p.toks) > 0 {
		p.toks = p.toks[1:]
	}
	return t
}

type matcher = func(string) bool

func (p *selParser) or() (matcher, error) {
	left, err := p.and()
	for err == nil && p.peek() == "or" {
		p.next()
		var right matcher
		if right, err = p.and(); err == nil {
			l := left
			left = func(id string) bool { return l(id) || right(id) }
		}
	}
	return left, err
}

func (p *selParser) and() (matcher, error) {
	left, err := p.not()
	for err == nil && p.peek() == "and" {
		p.next()
		var right matcher
		if right, err = p.not(); err == nil {
			l := left
			left = func(id string) bool { return l(id) && right(id) }
		}
	}
	return left, err
}

func (p *selParser) not() (matcher, error) {
	if p.depth++; p.depth > 100 {
		return nil, fmt.Errorf("nested too deeply")
	}
	defer func() { p.depth-- }()
	switch t := p.next(); t {
	case "not":
		m, err := p.not()
		if err != nil {
			return nil, err
		}
		return func(id string) bool { return !m(id) }, nil
	case "(":
		m, err := p.or()
		if err != nil {
			return nil, err
		}
		if p.next() != ")" {
			return nil, fmt.Errorf("a ) is missing")
		}
		return m, nil
	case "", ")", "and", "or":
		return nil, fmt.Errorf("a word is missing")
	default:
		word := strings.ToLower(t)
		return func(id string) bool { return strings.Contains(strings.ToLower(id), word) }, nil
	}
}

// selectCells returns a copy of the plan that holds only the chosen cells and
// tasks. Nothing chosen is a mistake, not an empty success.
func (s *selection) selectCells(p *plan.Plan) (*plan.Plan, error) {
	if s.text == "" {
		return p, nil
	}
	q := *p
	q.Cells = nil
	var ids []string
	for _, c := range p.Cells {
		ids = append(ids, c.ID)
		if s.match(c.ID) {
			c.Ordinal = len(q.Cells) + 1 // its place in expected.json, which names its folder
			q.Cells = append(q.Cells, c)
		}
	}
	q.Accuracy = nil
	for _, t := range p.Accuracy {
		if s.match("accuracy " + t.ID) {
			q.Accuracy = append(q.Accuracy, t)
		}
	}
	q.LongContext = nil
	for _, t := range p.LongContext {
		if s.match("long_context_accuracy " + t.ID) {
			q.LongContext = append(q.LongContext, t)
		}
	}
	if len(q.Cells)+len(q.Accuracy)+len(q.LongContext) == 0 {
		return nil, badInput("-k %q selects no cell; known: %s", s.text, strings.Join(ids, ", "))
	}
	return &q, nil
}

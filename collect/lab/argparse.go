package lab

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// An option is one argument of a Python program, as argparse knows it.
type option struct {
	names    []string // with dashes, the first is the destination
	kind     optionKind
	many     string // "", "*" or "+"
	choices  []string
	required bool
	fallback string // default, "" for None
}

type optionKind int8

const (
	isFlag optionKind = iota
	isString
	isInt
	isFloat
)

// A parser mimics argparse closely enough that a wrong command line fails as it
// would in the real program: message on stderr, exit code 2. Long options are
// accepted with dashes or underscores, as ATOM's and vLLM's parsers do.
type parser struct {
	prog        string
	options     []option
	positionals []string // names; all optional
}

// arguments are the parsed values by destination.
type arguments struct {
	given map[string][]string
	p     *parser
}

// A usageError is a wrong command line.
type usageError struct{ prog, msg string }

func (e *usageError) Error() string {
	return fmt.Sprintf("usage: %s [-h] [options]\n%s: error: %s", e.prog, e.prog, e.msg)
}

func canonical(name string) string {
	if strings.HasPrefix(name, "--") {
		return strings.ReplaceAll(name, "_", "-")
	}
	return name
}

func (p *parser) find(name string) *option {
	name = canonical(name)
	for i := range p.options {
		if slices.ContainsFunc(p.options[i].names, func(n string) bool { return canonical(n) == name }) {
			return &p.options[i]
		}
	}
	return nil
}

func (p *parser) parse(args []string) (*arguments, error) {
	fail := func(format string, a ...any) error { return &usageError{p.prog, fmt.Sprintf(format, a...)} }
	a := &arguments{given: map[string][]string{}, p: p}
	var unknown []string
	positional := 0
	for i := 0; i < len(args); i++ {
		arg := args[i]
		if !looksLikeOption(arg) {
			if positional < len(p.positionals) {
				a.given[p.positionals[positional]] = []string{arg}
				positional++
			} else {
				unknown = append(unknown, arg)
			}
			continue
		}
		name, value, inline := strings.Cut(arg, "=")
		o := p.find(name)
		if o == nil {
			unknown = append(unknown, arg)
			continue
		}
		label := strings.Join(o.names, "/")
		var values []string
		switch {
		case o.kind == isFlag:
			if inline {
				return nil, fail("argument %s: ignored explicit argument %s", label, pyRepr(value))
			}
			values = []string{"True"}
		case inline:
			values = []string{value}
		case o.many != "":
			values = []string{} // given, even if empty
			for i+1 < len(args) && !looksLikeOption(args[i+1]) {
				i++
				values = append(values, args[i])
			}
			if o.many == "+" && len(values) == 0 {
				return nil, fail("argument %s: expected at least one argument", label)
			}
		case i+1 < len(args) && !looksLikeOption(args[i+1]):
			i++
			values = []string{args[i]}
		default:
			return nil, fail("argument %s: expected one argument", label)
		}
		for _, v := range values {
			if err := o.check(v); err != "" {
				return nil, fail("argument %s: %s", label, err)
			}
		}
		a.given[o.names[0]] = values
	}
	var missing []string
	for _, o := range p.options {
		if _, ok := a.given[o.names[0]]; o.required && !ok {
			missing = append(missing, strings.Join(o.names, "/"))
		}
	}
	if missing != nil {
		return nil, fail("the following arguments are required: %s", strings.Join(missing, ", "))
	}
	if unknown != nil {
		return nil, fail("unrecognized arguments: %s", strings.Join(unknown, " "))
	}
	return a, nil
}

// looksLikeOption reports whether argparse would take the token as an option:
// a leading dash, but not a negative number.
func looksLikeOption(s string) bool {
	if len(s) < 2 || s[0] != '-' {
		return false
	}
	_, err := strconv.ParseFloat(s, 64)
	return err != nil
}

func (o *option) check(v string) string {
	switch o.kind {
	case isInt:
		if _, err := strconv.Atoi(strings.TrimSpace(v)); err != nil {
			return "invalid int value: " + pyRepr(v)
		}
	case isFloat:
		if _, err := strconv.ParseFloat(strings.TrimSpace(v), 64); err != nil {
			return "invalid float value: " + pyRepr(v)
		}
	}
	if o.choices != nil && !slices.Contains(o.choices, v) {
		return fmt.Sprintf("invalid choice: %s (choose from %s)", pyRepr(v), strings.Join(mapped(o.choices, pyRepr), ", "))
	}
	return ""
}

func mapped(in []string, f func(string) string) []string {
	out := make([]string, len(in))
	for i, s := range in {
		out[i] = f(s)
	}
	return out
}

func pyRepr(s string) string { return "'" + strings.ReplaceAll(s, "'", `\'`) + "'" }

func (a *arguments) has(name string) bool { return a.given[name] != nil }

func (a *arguments) list(name string) []string { return a.given[name] }

func (a *arguments) text(name string) string {
	if v := a.given[name]; len(v) > 0 {
		return v[len(v)-1]
	}
	if o := a.p.find(name); o != nil {
		return o.fallback
	}
	return ""
}

// integer and number return 0 for None; the parser has checked the syntax.
func (a *arguments) integer(name string) int {
	n, _ := strconv.Atoi(strings.TrimSpace(a.text(name)))
	return n
}

func (a *arguments) number(name string) float64 {
	f, _ := strconv.ParseFloat(strings.TrimSpace(a.text(name)), 64)
	return f
}

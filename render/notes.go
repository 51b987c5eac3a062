package render

import (
	"bytes"
	"html/template"
	"strings"
	"unicode/utf8"

	// CommonMark and GitHub tables, as reviewers write them.
	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/renderer"
	"github.com/yuin/goldmark/util"
)

// maxNotes bounds the notes of a deck, in bytes.
const maxNotes = 64 << 10

// notesHTML prints reviewers' Markdown. HTML in it is text, an image is its
// description, and a link is its address in words: nothing that a note says can
// make the page ask for anything or lead away from it.
func notesHTML(source string) (template.HTML, error) {
	source = visible(source, true)
	cut := len(source) > maxNotes
	if cut {
		source = source[:maxNotes]
		for !utf8.ValidString(source) {
			source = source[:len(source)-1]
		}
	}
	md := goldmark.New(
		goldmark.WithExtensions(
			// The page's policy forbids style attributes.
			extension.NewTable(extension.WithTableCellAlignMethod(extension.TableCellAlignAttribute)),
			extension.Strikethrough,
		),
		goldmark.WithRendererOptions(renderer.WithNodeRenderers(util.Prioritized(plainNodes{}, 1))),
	)
	var b bytes.Buffer
	if err := md.Convert([]byte(source), &b); err != nil {
		return "", err
	}
	if cut {
		b.WriteString("<p>The notes are longer than 64 KiB; the rest is in the run directory.</p>")
	}
	return template.HTML(b.Bytes()), nil
}

// plainNodes prints what could be more than words as words.
type plainNodes struct{}

// RegisterFuncs implements [renderer.NodeRenderer].
func (plainNodes) RegisterFuncs(r renderer.NodeRendererFuncRegisterer) {
	r.Register(ast.KindRawHTML, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			lines := n.(*ast.RawHTML).Segments
			for i := range lines.Len() {
				s := lines.At(i)
				template.HTMLEscape(w, s.Value(source))
			}
		}
		return ast.WalkSkipChildren, nil
	})
	r.Register(ast.KindHTMLBlock, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		block := n.(*ast.HTMLBlock)
		if !entering {
			if block.HasClosure() {
				line := block.ClosureLine
				template.HTMLEscape(w, line.Value(source))
			}
			_, err := w.WriteString("</p>\n")
			return ast.WalkContinue, err
		}
		if _, err := w.WriteString("<p>"); err != nil {
			return ast.WalkStop, err
		}
		for i := range block.Lines().Len() {
			s := block.Lines().At(i)
			template.HTMLEscape(w, s.Value(source))
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindImage, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			address(w, n.(*ast.Image).Destination)
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindLink, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			address(w, n.(*ast.Link).Destination)
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindAutoLink, func(w util.BufWriter, source []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		if entering {
			template.HTMLEscape(w, n.(*ast.AutoLink).Label(source))
		}
		return ast.WalkContinue, nil
	})
	r.Register(ast.KindHeading, func(w util.BufWriter, _ []byte, n ast.Node, entering bool) (ast.WalkStatus, error) {
		// Below the section's own heading.
		tag := []string{"h4", "h5", "h6"}[min(n.(*ast.Heading).Level, 3)-1]
		if entering {
			_, err := w.WriteString("<" + tag + ">")
			return ast.WalkContinue, err
		}
		_, err := w.WriteString("</" + tag + ">\n")
		return ast.WalkContinue, err
	})
}

func address(w util.BufWriter, to []byte) {
	if len(to) > 0 {
		w.WriteString(" (") // the error stays in the writer
		template.HTMLEscape(w, to)
		w.WriteString(")")
	}
}

func (b *builder) notes() *Section {
	notes := b.words()
	if strings.TrimSpace(notes) == "" && b.d.Problems["notes"] == "" {
		return nil
	}
	s := &Section{ID: "notes", Title: "Notes", Queries: b.sql("SELECT labels, notes FROM run WHERE run_id = %s")}
	words, err := notesHTML(notes)
	if err != nil {
		s.Text = visible(notes[:min(len(notes), maxNotes)], true)
		return s
	}
	s.Words = words
	return s
}

package warehouse

import (
	"embed"
	"io/fs"
	"path"
	"strings"
)

//go:embed sql/queries/*.sql
var queryFiles embed.FS

// A SavedQuery is a question that many have asked.
type SavedQuery struct {
	Name        string
	Description string // one line, with the parameters it wants
	Text        string
}

// SavedQueries lists the questions of sql/queries by name.
func SavedQueries() []SavedQuery {
	names, _ := fs.Glob(queryFiles, "sql/queries/*.sql") // the pattern is ours and valid
	var all []SavedQuery
	for _, n := range names {
		text, _ := queryFiles.ReadFile(n) // embedded
		head, body, _ := strings.Cut(string(text), "\n")
		q := SavedQuery{Name: strings.TrimSuffix(path.Base(n), ".sql"), Text: strings.TrimSpace(body)}
		_, q.Description, _ = strings.Cut(strings.TrimPrefix(head, "-- "), ": ")
		all = append(all, q)
	}
	return all
}

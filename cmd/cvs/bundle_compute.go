package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"

	"cvs/collect/artifact"
	evidence "cvs/collect/bundle" // another thing here is called bundle
	"cvs/render"
	"cvs/warehouse"
)

// maxBundleDecks bounds how many decks of loose results go into a bundle: each
// is a whole page, and such results often come by the thousand.
const maxBundleDecks = 50

// compute judges the runs of a bundle in a warehouse of their own and returns
// what the bundle holds beside the raw files: rows of tables and views, decks,
// sidecars. Verify calls it on the unpacked runs and compares.
func compute(ctx context.Context, list []packed, used []packedBaseline, info *evidence.Info, engine bool) ([]evidence.Source, error) {
	db, err := warehouse.Open(ctx, "", warehouse.Options{})
	if err != nil {
		return nil, badStore(err)
	}
	defer db.Close()
	if err := loadPacks(ctx, db, list); err != nil {
		return nil, err
	}
	views, tables, err := relations(ctx, db)
	if err != nil {
		return nil, err
	}
	var out []evidence.Source
	for _, rel := range []struct {
		dir   string
		names []string
	}{{evidence.ViewsDir, views}, {evidence.TablesDir, tables}} {
		for _, name := range rel.names {
			rows, err := relationRows(ctx, db, name)
			if err != nil {
				return nil, err
			}
			out = append(out, evidence.Bytes(path.Join(rel.dir, name+".jsonl"), rows))
		}
	}
	info.Views, info.Tables = views, tables
	decks, err := bundleDecks(ctx, comparedWithin(db, used), list, info)
	if err != nil {
		return nil, err
	}
	out = append(out, decks...)
	if engine {
		file, err := engineFile(ctx, list)
		if err != nil {
			return nil, err
		}
		out = append(out, file)
		info.Notes = append(info.Notes, "the DuckDB file is not the same byte for byte when made again; everything else is")
	}
	return out, nil
}

func loadPacks(ctx context.Context, db *warehouse.DB, list []packed) error {
	var runs []*artifact.Run
	for _, p := range list {
		runs = append(runs, p.runs...)
	}
	if _, err := db.Load(ctx, runs...); err != nil {
		return fmt.Errorf("load the runs of the bundle: %w", err)
	}
	return nil
}

// relations lists views and tables of the warehouse, those that hold only what
// this version of cvs says of itself left out.
func relations(ctx context.Context, db *warehouse.DB) (views, tables []string, err error) {
	rows, err := db.Ask(ctx, `SELECT view_name, true FROM duckdb_views() WHERE NOT internal AND NOT temporary
		UNION ALL SELECT table_name, false FROM duckdb_tables() WHERE NOT internal AND NOT temporary ORDER BY 1`)
	if err != nil {
		return nil, nil, badStore(fmt.Errorf("list the views: %w", err))
	}
	defer rows.Close()
	for rows.Next() {
		v, err := rows.Values()
		if err != nil {
			return nil, nil, badStore(err)
		}
		name, isView := fmt.Sprint(v[0]), v[1] == true
		switch {
		case name == "warehouse_info" || name == "metric_def" || name == "measurement":
			// metric_def is this version's vocabulary; measurement repeats view measured
		case isView:
			views = append(views, name)
		default:
			tables = append(tables, name)
		}
	}
	if err := rows.Err(); err != nil {
		return nil, nil, badStore(err)
	}
	return views, tables, nil
}

// relationRows are all rows of a view or table as JSON lines in one order.
func relationRows(ctx context.Context, db *warehouse.DB, name string) ([]byte, error) {
	rows, err := db.Ask(ctx, `SELECT * FROM "`+name+`"`)
	if err != nil {
		return nil, badStore(fmt.Errorf("read %s: %w", name, err))
	}
	defer rows.Close()
	var lines [][]byte
	for rows.Next() {
		line, err := jsonRow(rows)
		if err != nil {
			return nil, badStore(fmt.Errorf("read %s: %w", name, err))
		}
		lines = append(lines, append(line, '\n'))
	}
	if err := rows.Err(); err != nil {
		return nil, badStore(fmt.Errorf("read %s: %w", name, err))
	}
	slices.SortFunc(lines, bytes.Compare)
	return bytes.Join(lines, nil), nil
}

// bundleDecks renders the runs from what the bundle holds and nothing else.
func bundleDecks(ctx context.Context, db *warehouse.Compared, list []packed, info *evidence.Info) ([]evidence.Source, error) {
	var out []evidence.Source
	left := 0
	info.Runs = nil
	for _, p := range list {
		for _, r := range p.runs {
			one := evidence.Run{ID: r.Meta.RunID}
			if p.dir != "" {
				one.Dir = path.Join(evidence.RunsDir, p.id)
			}
			if p.dir == "" && len(p.runs) > maxBundleDecks {
				left++
				info.Runs = append(info.Runs, one)
				continue
			}
			deck, sidecar, err := renderRun(ctx, db, r.Meta.RunID, info)
			if err != nil {
				return nil, err
			}
			dir := path.Join(evidence.DecksDir, artifact.SafeName(r.Meta.RunID))
			one.Deck, one.JSON = path.Join(dir, deckName), path.Join(dir, "atom_run_deck.json")
			out = append(out, evidence.Bytes(one.Deck, deck), evidence.Bytes(one.JSON, sidecar))
			info.Runs = append(info.Runs, one)
		}
	}
	if left > 0 {
		info.Notes = append(info.Notes, fmt.Sprintf("%d loose results have no deck of their own here; cvs replay loads them into a warehouse", left))
	}
	return out, nil
}

// renderRun makes deck and sidecar of one run with the time and the version that
// the bundle states.
func renderRun(ctx context.Context, db *warehouse.Compared, runID string, info *evidence.Info) (deck, sidecar []byte, err error) {
	data, err := render.Query(ctx, db, runID)
	if err != nil {
		return nil, nil, badStore(fmt.Errorf("read the views for the deck: %w", err))
	}
	if err := data.QueryReview(ctx, db, info.Rendered); err != nil {
		return nil, nil, badStore(err)
	}
	opts := render.Options{Now: info.Rendered, ToolVersion: info.ToolVersion}
	var d, s bytes.Buffer
	if err := render.Write(&d, render.Build(data, opts)); err != nil {
		return nil, nil, badStore(err)
	}
	if err := render.WriteJSON(&s, data, opts); err != nil {
		return nil, nil, badStore(err)
	}
	return d.Bytes(), s.Bytes(), nil
}

// engineFile is the warehouse as DuckDB writes it.
func engineFile(ctx context.Context, list []packed) (_ evidence.Source, err error) {
	tmp, err := os.MkdirTemp("", "cvs-bundle-")
	if err != nil {
		return evidence.Source{}, badStore(err)
	}
	defer os.RemoveAll(tmp)
	file := filepath.Join(tmp, "cvs.duckdb")
	if err := writeWarehouse(ctx, file, list); err != nil {
		return evidence.Source{}, err
	}
	data, err := os.ReadFile(file)
	if err != nil {
		return evidence.Source{}, badStore(err)
	}
	return evidence.Bytes(path.Join(evidence.TablesDir, "cvs.duckdb"), data), nil
}

// writeWarehouse builds a warehouse file with these runs and nothing else.
func writeWarehouse(ctx context.Context, file string, list []packed) (err error) {
	db, err := openStore(ctx, file, warehouse.Options{})
	if err != nil {
		return err
	}
	defer func() {
		if cerr := db.Close(); cerr != nil {
			err = errors.Join(err, badStore(cerr))
		}
	}()
	return loadPacks(ctx, db, list)
}

//! SVG plots.

use anyhow::{Result, anyhow};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::path::Path;

use crate::curves::{self, Axes, Curve, Spread};
use crate::samples::Samples;

const SIZE_PIXELS: (u32, u32) = (900, 540);
const LABEL_PIXELS: u32 = 16;

/// Attributes that say what SVG says without them: a quarter of a plot.
const DEFAULTS: [&str; 3] = [" opacity=\"1\"", " stroke=\"none\"", " stroke-width=\"1\""];

/// Plots are drawn in memory; the file is written in one go, so that a full disk is one clear error.
pub fn save(path: &Path, draw: impl FnOnce(&mut String) -> Result<()>) -> Result<()> {
    let mut svg = String::new();
    draw(&mut svg)?;
    for default in DEFAULTS {
        svg = svg.replace(default, "");
    }
    crate::files::write(path, svg.as_bytes())
}

/// A plot that cannot be drawn, as an error like any other.
pub fn failed<E: std::error::Error + Send + Sync>(error: DrawingAreaErrorKind<E>) -> anyhow::Error {
    anyhow!("cannot draw: {error}")
}

/// Cumulative distribution of latencies in microseconds, with the percentiles marked.
pub fn latency(path: &Path, title: &str, series: &[(&str, &Samples)]) -> Result<()> {
    let max_ns = series
        .iter()
        .filter_map(|(_, samples)| samples.sorted_ns().last())
        .max();
    let max_us = max_ns.map_or(1.0, |ns| *ns as f64 / 1000.0).max(0.001);
    save(path, |svg| {
        let root = SVGBackend::with_string(svg, SIZE_PIXELS).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 20))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(60)
            .build_cartesian_2d(0.0..max_us * 1.05, 0.0..100.0)
            .map_err(failed)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc("latency, microseconds of simulated time")
            .y_desc("operations not longer, %");
        mesh.label_style(("sans-serif", LABEL_PIXELS))
            .draw()
            .map_err(failed)?;
        for (index, (name, samples)) in series.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            let points = steps(samples.sorted_ns());
            let line = LineSeries::new(points, color.stroke_width(2));
            let legend = move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2));
            chart
                .draw_series(line)
                .map_err(failed)?
                .label(*name)
                .legend(legend);
            let marks =
                [50, 99].map(|percent| (samples.percentile_ns(percent) as f64 / 1000.0, percent as f64));
            let style = ("sans-serif", LABEL_PIXELS)
                .into_text_style(&root)
                .pos(Pos::new(HPos::Right, VPos::Bottom));
            let mark = |(us, percent): (f64, f64)| {
                EmptyElement::at((us, percent))
                    + Circle::new((0, 0), 4, color.filled())
                    + Text::new(format!("p{percent} {us:.2} us"), (-8, 0), style.clone())
            };
            chart.draw_series(marks.map(mark)).map_err(failed)?;
        }
        let mut labels = chart.configure_series_labels();
        labels
            .position(SeriesLabelPosition::LowerRight)
            .border_style(BLACK)
            .background_style(WHITE.mix(0.8));
        labels
            .label_font(("sans-serif", LABEL_PIXELS))
            .draw()
            .map_err(failed)?;
        root.present().map_err(failed)
    })
}

/// The distribution as a stair.
fn steps(sorted_ns: &[u64]) -> Vec<(f64, f64)> {
    let count = sorted_ns.len().max(1) as f64;
    let stair = sorted_ns.iter().enumerate().flat_map(|(i, ns)| {
        let us = *ns as f64 / 1000.0;
        [
            (us, 100.0 * i as f64 / count),
            (us, 100.0 * (i + 1) as f64 / count),
        ]
    });
    stair.collect()
}

/// A value against the message size, both axes logarithmic; a line for each series. Zeros are left out.
pub fn against_size(
    path: &Path,
    title: &str,
    unit: &str,
    series: &[(String, Vec<(u32, f64)>)],
) -> Result<()> {
    let known = |(size, value): &(u32, f64)| *size > 0 && *value > 0.0;
    let curve = |(name, points): &(String, Vec<(u32, f64)>)| Curve {
        name: name.clone(),
        points: points
            .iter()
            .filter(|point| known(point))
            .map(|(size, value)| (f64::from(*size), Spread::of(&[*value])))
            .collect(),
    };
    let curves: Vec<Curve> = series.iter().map(curve).collect();
    if curves.iter().all(|curve| curve.points.is_empty()) {
        return Ok(());
    }
    let axes = Axes {
        title: title.to_owned(),
        x: "message size, bytes".to_owned(),
        y: unit.to_owned(),
        log_x: true,
        log_y: true,
        labels: Vec::new(),
        sizes: true,
    };
    curves::draw(path, &axes, &curves)
}

/// Bars made of pieces, one below the other; the colours follow the names of the pieces.
pub fn stacked(path: &Path, title: &str, unit: &str, bars: &[(String, Vec<(String, f64)>)]) -> Result<()> {
    let mut names: Vec<&str> = Vec::new();
    for (name, _) in bars.iter().flat_map(|(_, pieces)| pieces) {
        if !names.contains(&name.as_str()) {
            names.push(name);
        }
    }
    let length = |pieces: &[(String, f64)]| pieces.iter().map(|(_, value)| value).sum::<f64>();
    let longest = bars.iter().map(|(_, pieces)| length(pieces)).fold(1.0, f64::max);
    let pixels = (
        SIZE_PIXELS.0,
        220 + 40 * bars.len() as u32 + 11 * names.len() as u32,
    );
    save(path, |svg| {
        let root = SVGBackend::with_string(svg, pixels).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        // The free place on the right is the legend's.
        let mut chart = ChartBuilder::on(&root)
            .caption(title, ("sans-serif", 20))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(190)
            .build_cartesian_2d(0.0..longest * 1.5, bars.len() as f64..0.0)
            .map_err(failed)?;
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(unit).disable_y_mesh().y_labels(0);
        mesh.label_style(("sans-serif", LABEL_PIXELS))
            .draw()
            .map_err(failed)?;
        for (index, name) in names.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            let pieces = bars.iter().enumerate().flat_map(|(bar, (_, pieces))| {
                let mut end = 0.0;
                let placed = pieces.iter().map(move |(piece, value)| {
                    end += value;
                    (piece, end - value, end)
                });
                placed
                    .filter(|(piece, ..)| piece.as_str() == *name)
                    .map(move |(_, from, to)| {
                        let corners = [(from, bar as f64 + 0.2), (to, bar as f64 + 0.8)];
                        Rectangle::new(corners, color.filled())
                    })
            });
            let legend = move |(x, y)| Rectangle::new([(x, y - 5), (x + 14, y + 5)], color.filled());
            chart
                .draw_series(pieces)
                .map_err(failed)?
                .label(*name)
                .legend(legend);
        }
        let style = ("sans-serif", LABEL_PIXELS)
            .into_text_style(&root)
            .pos(Pos::new(HPos::Right, VPos::Center));
        let texts = bars.iter().enumerate().map(|(bar, (name, _))| {
            EmptyElement::at((0.0, bar as f64 + 0.5)) + Text::new(name.clone(), (-8, 0), style.clone())
        });
        chart.draw_series(texts).map_err(failed)?;
        let mut labels = chart.configure_series_labels();
        labels
            .position(SeriesLabelPosition::UpperRight)
            .border_style(BLACK)
            .background_style(WHITE.mix(0.8));
        labels
            .label_font(("sans-serif", LABEL_PIXELS - 4))
            .draw()
            .map_err(failed)?;
        root.present().map_err(failed)
    })
}

/// Three digits and a unit prefix.
pub fn engineering(value: f64) -> String {
    let (scaled, prefix) = match value {
        v if v >= 1e9 => (v / 1e9, "G"),
        v if v >= 1e6 => (v / 1e6, "M"),
        v if v >= 1e3 => (v / 1e3, "k"),
        v => (v, ""),
    };
    let digits = if scaled >= 100.0 || scaled == 0.0 {
        0
    } else {
        1 + usize::from(scaled < 10.0)
    };
    format!("{scaled:.digits$}{prefix}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_keep_three_digits() {
        let shown = [0.0, 1.0, 12.34, 999.0, 1234.0, 12.5e9].map(engineering);
        assert_eq!(shown, ["0", "1.00", "12.3", "999", "1.23k", "12.5G"]);
    }

    #[test]
    fn plots_are_svg() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a/latency.svg");
        let samples = Samples::from(vec![1000, 2000, 500]);
        latency(&path, "t", &[("WRITE", &samples), ("none", &Samples::default())]).unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().starts_with("<svg"));
        against_size(
            &path,
            "t",
            "B/s",
            &[("w".into(), vec![(0, 1.0), (64, 2e9), (128, 3e9)])],
        )
        .unwrap();
        assert!(std::fs::read_to_string(&path).unwrap().contains("message size"));
        let pieces = |parts: &[(&str, f64)]| parts.iter().map(|(name, v)| ((*name).to_owned(), *v)).collect();
        let bars = [
            ("64 alone".to_owned(), pieces(&[("wire", 3.0), ("memory", 5.0)])),
            ("none".to_owned(), pieces(&[])),
        ];
        stacked(&path, "t", "ns", &bars).unwrap();
        let svg = std::fs::read_to_string(&path).unwrap();
        assert!(svg.contains("64 alone") && svg.contains("memory"), "{svg}");
    }
}

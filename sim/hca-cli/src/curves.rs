//! Lines through means, with a bar from the least to the most where there are several values.

use anyhow::Result;
use plotters::coord::ranged1d::{DefaultFormatting, KeyPointHint, Ranged};
use plotters::prelude::*;
use std::ops::Range;
use std::path::Path;

use crate::plots::{self, engineering, failed};
use crate::sizes::human;

const SIZE_PIXELS: (u32, u32) = (900, 540);
const LABEL_PIXELS: u32 = 16;
/// Fewer marks do not tell what a scale is.
const FEW_MARKS: usize = 3;
/// Half the width of the end of a bar.
const WHISKER_PIXELS: i32 = 4;

/// Several values of the same thing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Spread {
    /// Mean.
    pub mean: f64,
    /// Least.
    pub low: f64,
    /// Most.
    pub high: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: &[f64]) -> Self {
        Self {
            mean: values.iter().sum::<f64>() / values.len().max(1) as f64,
            low: values.iter().copied().fold(f64::INFINITY, f64::min),
            high: values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        }
    }
}

/// A line.
pub struct Curve {
    /// Its name in the legend; none without one.
    pub name: String,
    /// From left to right.
    pub points: Vec<(f64, Spread)>,
}

/// What stands around it.
pub struct Axes {
    /// Above.
    pub title: String,
    /// Below.
    pub x: String,
    /// At the left.
    pub y: String,
    /// The scale of the horizontal axis is logarithmic.
    pub log_x: bool,
    /// The scale of the vertical axis is logarithmic.
    pub log_y: bool,
    /// Texts at 0, 1, 2... of the horizontal axis; none: it has numbers.
    pub labels: Vec<String>,
    /// The horizontal axis has sizes in bytes: powers of two, by their names.
    pub sizes: bool,
}

/// An axis whose scale is known only when it is drawn.
#[derive(Clone)]
struct Scale {
    range: Range<f64>,
    log: bool,
    /// It has a mark at each whole number and nowhere else.
    whole: bool,
    /// Marks of a logarithmic scale are powers of two.
    binary: bool,
}

impl Scale {
    fn new(values: impl Iterator<Item = f64>, log: bool, from_zero: bool) -> Self {
        let finite = values.filter(|value| value.is_finite() && (!log || *value > 0.0));
        let (low, high) = finite.fold((f64::MAX, f64::MIN), |(low, high), v| (low.min(v), high.max(v)));
        let (low, high) = if low > high { (1.0, 10.0) } else { (low, high) };
        let range = if log {
            low / 1.3..high * 1.3
        } else {
            let room = ((high - low) * 0.06).max(high.abs() * 0.02).max(1e-12);
            let bottom = if from_zero && low >= 0.0 { 0.0 } else { low - room };
            bottom..high + room
        };
        Self {
            range,
            log,
            whole: false,
            binary: false,
        }
    }
}

impl Scale {
    /// Round numbers at the same distance.
    fn even_marks(&self, most: usize) -> Vec<f64> {
        let Range { start, end } = self.range;
        let step = nice((end - start) / most as f64);
        let first = (start / step).ceil() as i64;
        let marks = (first..).map(|at| at as f64 * step);
        marks.take_while(|at| *at <= end).take(most + 1).collect()
    }
}

impl Ranged for Scale {
    type FormatOption = DefaultFormatting;
    type ValueType = f64;

    fn map(&self, value: &f64, limit: (i32, i32)) -> i32 {
        let place = |value: f64| {
            if self.log {
                value.max(f64::MIN_POSITIVE).ln()
            } else {
                value
            }
        };
        let (from, to) = (place(self.range.start), place(self.range.end));
        let share = (place(*value) - from) / (to - from).max(f64::MIN_POSITIVE);
        limit.0 + (share * f64::from(limit.1 - limit.0)).round() as i32
    }

    fn key_points<Hint: KeyPointHint>(&self, hint: Hint) -> Vec<f64> {
        let Range { start, end } = self.range;
        if self.whole {
            let first = start.ceil() as i64;
            return (first..=end.floor() as i64).map(|at| at as f64).collect();
        }
        let most = hint.max_num_points().max(2);
        if !self.log {
            return self.even_marks(most);
        }
        let base: f64 = if self.binary { 2.0 } else { 10.0 };
        let powers = start.log(base).floor() as i32..=end.log(base).ceil() as i32;
        let inside = |mark: &f64| (start..=end).contains(mark);
        if !self.binary {
            let fine = powers
                .clone()
                .flat_map(|power| [1.0, 2.0, 5.0].map(|digit| digit * base.powi(power)));
            let fine: Vec<f64> = fine.filter(inside).collect();
            // Too few where the scale spans less than a decade.
            match fine.len() {
                0..FEW_MARKS => return self.even_marks(most),
                count if count <= most => return fine,
                _ => {}
            }
        }
        let marks: Vec<f64> = powers.map(|power| base.powi(power)).filter(inside).collect();
        let every = marks.len().div_ceil(most).max(1);
        marks.into_iter().step_by(every).collect()
    }

    fn range(&self) -> Range<f64> {
        self.range.clone()
    }
}

/// The next of 1, 2, 5, 10...
fn nice(step: f64) -> f64 {
    let power = 10f64.powf(step.max(f64::MIN_POSITIVE).log10().floor());
    let found = [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .find(|factor| factor * power >= step);
    found.unwrap_or(10.0) * power
}

/// Draws them.
pub fn draw(path: &Path, axes: &Axes, curves: &[Curve]) -> Result<()> {
    let points = || curves.iter().flat_map(|curve| &curve.points);
    let mut x = Scale::new(points().map(|(x, _)| *x), axes.log_x, false);
    if !axes.labels.is_empty() {
        (x.range, x.whole) = (-0.5..axes.labels.len() as f64 - 0.5, true);
    }
    x.binary = axes.sizes;
    let y = Scale::new(points().flat_map(|(_, y)| [y.low, y.high]), axes.log_y, true);
    plots::save(path, |svg| {
        let root = SVGBackend::with_string(svg, SIZE_PIXELS).into_drawing_area();
        root.fill(&WHITE).map_err(failed)?;
        let mut chart = ChartBuilder::on(&root)
            .caption(&axes.title, ("sans-serif", 20))
            .margin(16)
            .x_label_area_size(44)
            .y_label_area_size(80)
            .build_cartesian_2d(x, y)
            .map_err(failed)?;
        let label = |at: &f64| match axes.labels.get(at.round().max(0.0) as usize) {
            Some(label) => label.clone(),
            None if axes.sizes => human(at.round() as u64),
            None => short(*at),
        };
        let mut mesh = chart.configure_mesh();
        mesh.x_desc(&axes.x).y_desc(&axes.y).x_label_formatter(&label);
        mesh.y_label_formatter(&|at| short(*at))
            .light_line_style(TRANSPARENT);
        mesh.label_style(("sans-serif", LABEL_PIXELS))
            .draw()
            .map_err(failed)?;
        for (index, curve) in curves.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            let means = curve.points.iter().map(|(x, y)| (*x, y.mean));
            let line = LineSeries::new(means, color.stroke_width(2)).point_size(3);
            let line = chart.draw_series(line).map_err(failed)?;
            if !curve.name.is_empty() {
                let legend = move |(x, y)| PathElement::new([(x, y), (x + 20, y)], color.stroke_width(2));
                line.label(&curve.name).legend(legend);
            }
            let bars = curve.points.iter().filter(|(_, y)| y.low < y.high);
            let bars = bars.map(|(x, y)| {
                let end = |at: i32| {
                    let whisker = vec![(-WHISKER_PIXELS, at), (WHISKER_PIXELS, at)];
                    PathElement::new(whisker, color.stroke_width(1))
                };
                let line = PathElement::new(vec![(*x, y.low), (*x, y.high)], color.stroke_width(1));
                (
                    line,
                    EmptyElement::at((*x, y.low)) + end(0),
                    EmptyElement::at((*x, y.high)) + end(0),
                )
            });
            for (line, low, high) in bars {
                chart.draw_series([line]).map_err(failed)?;
                chart.draw_series([low, high]).map_err(failed)?;
            }
        }
        if curves.iter().any(|curve| !curve.name.is_empty()) {
            let mut labels = chart.configure_series_labels();
            labels
                .position(SeriesLabelPosition::LowerRight)
                .border_style(BLACK);
            labels
                .background_style(WHITE.mix(0.8))
                .label_font(("sans-serif", LABEL_PIXELS));
            labels.draw().map_err(failed)?;
        }
        root.present().map_err(failed)
    })
}

/// A number at an axis.
fn short(value: f64) -> String {
    match value.abs() {
        0.0 => "0".to_owned(),
        size if size >= 10_000.0 => engineering(value),
        size if size >= 100.0 || value.fract() == 0.0 => format!("{value:.0}"),
        size if size >= 1.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use plotters::coord::ranged1d::BoldPoints;

    #[test]
    fn marks_are_round_numbers() {
        let scale = |low, high, log| Scale::new([low, high].into_iter(), log, true);
        assert_eq!(
            scale(0.0, 9.0, false).key_points(BoldPoints(5)),
            [0.0, 2.0, 4.0, 6.0, 8.0]
        );
        let sizes = Scale {
            binary: true,
            ..scale(64.0, 1024.0, true)
        };
        assert_eq!(
            sizes.key_points(BoldPoints(9)),
            [64.0, 128.0, 256.0, 512.0, 1024.0]
        );
        assert_eq!(
            scale(900.0, 6000.0, true).key_points(BoldPoints(9)),
            [1000.0, 2000.0, 5000.0]
        );
        assert_eq!(scale(1.0, 1e6, true).key_points(BoldPoints(4)).len(), 4);
        assert!(
            !scale(f64::NAN, f64::NAN, false)
                .key_points(BoldPoints(4))
                .is_empty()
        );
        assert_eq!(scale(7.0, 7.0, false).map(&7.14, (100, 0)), 0);
        assert_eq!(
            [0.0, 1e9, 150.0, 1.5, 0.25].map(short),
            ["0", "1.00G", "150", "1.5", "0.250"]
        );
    }
}

